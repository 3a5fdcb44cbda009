// A client of a served agent, strict as agentapi's own for Go is: an event of another name, with another
// member or of more than 128 KiB is an error. It talks, keeps silent until the server has sent a comment,
// and talks again, all over one stream. What it was told is printed, one line of JSON each.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"
)

type messageUpdate struct {
	ID      int64     `json:"id"`
	Role    string    `json:"role"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

type statusChange struct {
	Status    string `json:"status"`
	AgentType string `json:"agent_type"`
}

type told struct {
	event any
	err   error
}

// Passes on what it reads, and says when there was a comment in it.
type commentNoticing struct {
	io.Reader
	comments chan<- struct{}
}

func (c commentNoticing) Read(into []byte) (int, error) {
	count, err := c.Reader.Read(into)
	if strings.Contains("\n"+string(into[:count]), "\n:") {
		select {
		case c.comments <- struct{}{}:
		default:
		}
	}
	return count, err
}

func strictly(data string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func read(event sse.Event) (any, error) {
	switch event.Type {
	case "message_update":
		var update messageUpdate
		err := strictly(event.Data, &update)
		return update, err
	case "status_change":
		var change statusChange
		err := strictly(event.Data, &change)
		return change, err
	}
	return nil, fmt.Errorf("an event of another name: %q", event.Type)
}

func follow(body io.Reader, events chan<- told) {
	defer close(events)
	for event, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: 128 * 1024}) {
		var value any
		if err == nil {
			value, err = read(event)
		}
		events <- told{value, err}
		if err != nil {
			return
		}
	}
}

func show(one told) error {
	if one.err != nil {
		return one.err
	}
	return json.NewEncoder(os.Stdout).Encode(one.event)
}

func untilStable(events <-chan told) error {
	for one := range events {
		if err := show(one); err != nil {
			return err
		}
		if change, is := one.event.(statusChange); is && change.Status == "stable" {
			return nil
		}
	}
	return fmt.Errorf("the stream ended")
}

func untilComment(events <-chan told, comments <-chan struct{}) error {
	for {
		select {
		case <-comments:
			return nil
		case one, is := <-events:
			if !is {
				return fmt.Errorf("the stream ended")
			}
			if err := show(one); err != nil {
				return err
			}
		}
	}
}

func say(url, text string) error {
	body, err := json.Marshal(map[string]string{"content": text, "type": "user"})
	if err != nil {
		return err
	}
	answer, err := http.Post(url+"/message", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not sent: %s", answer.Status)
	}
	return nil
}

func talk(url, first, second string) error {
	stream, err := http.Get(url + "/events")
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	events, comments := make(chan told, 1024), make(chan struct{}, 1)
	go follow(commentNoticing{stream.Body, comments}, events)
	if err := untilStable(events); err != nil {
		return err
	}
	if err := say(url, first); err != nil {
		return err
	}
	if err := untilStable(events); err != nil {
		return err
	}
	if err := untilComment(events, comments); err != nil {
		return err
	}
	if err := say(url, second); err != nil {
		return err
	}
	return untilStable(events)
}

func main() {
	if err := talk(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
