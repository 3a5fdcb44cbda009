pragma application_id = 1332966508;
CREATE TABLE store (id text not null);
CREATE TABLE sessions (
    key integer primary key,
    id text not null unique,
    cwd text not null,
    created integer not null,
    updated integer not null,
    last_seq integer not null,
    tail_seq integer not null,       -- opening needs every fact from here on
    title text not null,
    preview text not null,
    status text not null,
    driver text not null,
    forked_from text not null,
    child_of text not null,
    generation integer not null,
    owner blob,                      -- null: the lease is free
    expires integer not null,
    indexed_seq integer not null     -- the search index holds messages up to here
);
CREATE INDEX sessions_by_use on sessions (updated desc);
CREATE TABLE facts (
    session integer not null,
    seq integer not null,
    type text not null,
    opening integer not null,        -- needed to open the session after its run has ended
    parent integer,
    run text not null,
    time integer not null,
    origin text not null,
    body blob not null,
    primary key (session, seq)
) without rowid;
CREATE TABLE inbox (
    arrived integer primary key autoincrement,
    session integer not null,
    id text not null,
    body blob not null,              -- empty when it was settled without having been submitted
    settled integer,
    unique (session, id)
);
CREATE TABLE processes (session integer not null, call text not null, process blob not null);
CREATE TABLE blobs (
    key integer primary key,
    session integer not null,
    id text not null,
    media_type text not null,
    size integer not null,
    unique (session, id)
);
CREATE TABLE blob_parts (blob integer not null, start integer not null, data blob not null);
CREATE INDEX blob_parts_by_place on blob_parts (blob, start);
CREATE VIRTUAL TABLE messages using fts5 (
    words, session unindexed, seq unindexed, tokenize = 'ascii'  -- split already, as in `words.py`
);
insert into store (id) values ('store_golden');
insert into sessions (key, id, cwd, created, updated, last_seq, tail_seq, title, preview, status, driver, forked_from, child_of, generation, owner, expires, indexed_seq) values (1, 'ses_held', '/home/ada', 1700000000001, 1700000000014, 14, 12, 'The parser', 'Fix the naïve parser.', 'completed', 'agent', '', '', 1, X'7B22706964223A343731312C2273746172746564223A22313930222C22626F6F74223A2231623465323862612D326661312D313164322D383833662D303031366433636361343237222C22686F7374223A22737461626C65222C226F70656E696E67223A22227D', 1700000030000, 14);
insert into sessions (key, id, cwd, created, updated, last_seq, tail_seq, title, preview, status, driver, forked_from, child_of, generation, owner, expires, indexed_seq) values (2, 'ses_cut', '/home/ada', 1700000000001, 1700000000008, 8, 2, '', 'Fix the naïve parser.', 'running', 'agent', '', '', 0, NULL, 0, 8);
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 1, 'session_started', 1, NULL, '', 1700000000001, '', X'7B2274797065223A2273657373696F6E5F73746172746564222C22637764223A222F686F6D652F616461222C2276657273696F6E223A22302E312E30227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 2, 'run_started', 0, NULL, 'run_1', 1700000000002, '', X'7B2274797065223A2272756E5F73746172746564222C2276657273696F6E223A22302E312E30222C22637764223A222F686F6D652F616461222C226D6F64656C223A2273637269707465642F6D6F64656C227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 3, 'user_message', 1, 0, 'run_1', 1700000000003, '', X'7B2274797065223A22757365725F6D657373616765222C22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A2246697820746865206E61C3AF7665207061727365722E227D5D7D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 4, 'step_started', 0, NULL, 'run_1', 1700000000004, '', X'7B2274797065223A22737465705F73746172746564222C226E756D626572223A312C22746F6F6C73223A5B2262617368225D7D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 5, 'model_called', 0, NULL, 'run_1', 1700000000005, '', X'7B2274797065223A226D6F64656C5F63616C6C6564222C226964223A226D635F31222C226D6F64656C223A2273637269707465642F6D6F64656C222C22646967657374223A226431227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 6, 'usage', 0, NULL, 'run_1', 1700000000006, '', X'7B2274797065223A227573616765222C2263616C6C223A226D635F31222C226D6F64656C223A2273637269707465642F6D6F64656C222C227573616765223A7B22696E7075745F746F6B656E73223A31302C226F75747075745F746F6B656E73223A357D2C2263756D756C6174697665223A7B22696E7075745F746F6B656E73223A31302C226F75747075745F746F6B656E73223A357D7D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 7, 'assistant_message', 1, 3, 'run_1', 1700000000007, '', X'7B2274797065223A22617373697374616E745F6D657373616765222C2263616C6C223A226D635F31222C22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A22492072756E207468652074657374732E227D2C7B2274797065223A22746F6F6C5F63616C6C222C226964223A2263616C6C5F31222C226E616D65223A2262617368222C22617267756D656E7473223A227B7D227D5D2C2273746F705F726561736F6E223A22746F6F6C5F63616C6C73227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 8, 'tool_called', 0, 7, 'run_1', 1700000000008, '', X'7B2274797065223A22746F6F6C5F63616C6C6564222C2263616C6C223A2263616C6C5F31222C226E616D65223A2262617368222C22617267756D656E7473223A7B7D2C2273746570223A317D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 9, 'tool_started', 0, NULL, 'run_1', 1700000000009, '', X'7B2274797065223A22746F6F6C5F73746172746564222C2263616C6C223A2263616C6C5F31222C226E616D65223A2262617368227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 10, 'tool_result', 1, 8, 'run_1', 1700000000010, '', X'7B2274797065223A22746F6F6C5F726573756C74222C2263616C6C223A2263616C6C5F31222C226E616D65223A2262617368222C22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A22313220706173736564227D5D2C226F7574707574223A7B226964223A226F75745F63616C6C5F31222C2273697A65223A33302C226D656469615F74797065223A22746578742F706C61696E227D7D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 11, 'step_ended', 0, NULL, 'run_1', 1700000000011, '', X'7B2274797065223A22737465705F656E646564222C226E756D626572223A317D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 12, 'run_ended', 1, NULL, 'run_1', 1700000000012, '', X'7B2274797065223A2272756E5F656E646564222C22737461747573223A22636F6D706C65746564227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 13, 'session_renamed', 1, NULL, '', 1700000000013, '', X'7B2274797065223A2273657373696F6E5F72656E616D6564222C227469746C65223A2254686520706172736572222C2272657175657374223A227265715F31227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (1, 14, 'of_a_later_version', 1, NULL, '', 1700000000014, '', X'7B2274797065223A226F665F615F6C617465725F76657273696F6E222C20226B65707422203A20226279746520666F722062797465222C20226E223A312E35307D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 1, 'session_started', 1, NULL, '', 1700000000001, '', X'7B2274797065223A2273657373696F6E5F73746172746564222C22637764223A222F686F6D652F616461222C2276657273696F6E223A22302E312E30227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 2, 'run_started', 0, NULL, 'run_1', 1700000000002, '', X'7B2274797065223A2272756E5F73746172746564222C2276657273696F6E223A22302E312E30222C22637764223A222F686F6D652F616461222C226D6F64656C223A2273637269707465642F6D6F64656C227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 3, 'user_message', 1, 0, 'run_1', 1700000000003, '', X'7B2274797065223A22757365725F6D657373616765222C22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A2246697820746865206E61C3AF7665207061727365722E227D5D7D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 4, 'step_started', 0, NULL, 'run_1', 1700000000004, '', X'7B2274797065223A22737465705F73746172746564222C226E756D626572223A312C22746F6F6C73223A5B2262617368225D7D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 5, 'model_called', 0, NULL, 'run_1', 1700000000005, '', X'7B2274797065223A226D6F64656C5F63616C6C6564222C226964223A226D635F31222C226D6F64656C223A2273637269707465642F6D6F64656C222C22646967657374223A226431227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 6, 'usage', 0, NULL, 'run_1', 1700000000006, '', X'7B2274797065223A227573616765222C2263616C6C223A226D635F31222C226D6F64656C223A2273637269707465642F6D6F64656C222C227573616765223A7B22696E7075745F746F6B656E73223A31302C226F75747075745F746F6B656E73223A357D2C2263756D756C6174697665223A7B22696E7075745F746F6B656E73223A31302C226F75747075745F746F6B656E73223A357D7D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 7, 'assistant_message', 1, 3, 'run_1', 1700000000007, '', X'7B2274797065223A22617373697374616E745F6D657373616765222C2263616C6C223A226D635F31222C22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A22492072756E207468652074657374732E227D2C7B2274797065223A22746F6F6C5F63616C6C222C226964223A2263616C6C5F31222C226E616D65223A2262617368222C22617267756D656E7473223A227B7D227D5D2C2273746F705F726561736F6E223A22746F6F6C5F63616C6C73227D');
insert into facts (session, seq, type, opening, parent, run, time, origin, body) values (2, 8, 'tool_called', 0, 7, 'run_1', 1700000000008, '', X'7B2274797065223A22746F6F6C5F63616C6C6564222C2263616C6C223A2263616C6C5F31222C226E616D65223A2262617368222C22617267756D656E7473223A7B7D2C2273746570223A317D');
insert into inbox (arrived, session, id, body, settled) values (1, 1, 'req_1', X'', 13);
insert into inbox (arrived, session, id, body, settled) values (3, 1, 'req_2', X'7B2274797065223A2270726F6D7074222C22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A22416E6420746865206C657865722E227D5D2C226964223A227265715F32227D', NULL);
insert into processes (session, call, process) values (1, 'call_2', X'7B22706964223A343731322C2273746172746564223A22313931222C22626F6F74223A2231623465323862612D326661312D313164322D383833662D303031366433636361343237222C22686F7374223A22737461626C65222C226F70656E696E67223A22227D');
insert into blobs (key, session, id, media_type, size) values (1, 1, 'out_call_1', 'text/plain', 30);
insert into blobs (key, session, id, media_type, size) values (2, 2, 'out_call_1', 'text/plain', 18);
insert into blob_parts (blob, start, data) values (1, 0, X'31322070617373');
insert into blob_parts (blob, start, data) values (1, 7, X'65640A3132207061737365640A3132207061737365640A');
insert into blob_parts (blob, start, data) values (2, 0, X'6F6620616E6F746865722073657373696F6E');
insert into messages (words, session, seq) values ('fix the naive parser', 'ses_cut', 3);
insert into messages (words, session, seq) values ('fix the naive parser', 'ses_held', 3);
insert into messages (words, session, seq) values ('i run the tests', 'ses_cut', 7);
insert into messages (words, session, seq) values ('i run the tests', 'ses_held', 7);
pragma user_version = 2;
