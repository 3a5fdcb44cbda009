module client

go 1.23

require github.com/tmaxmax/go-sse v0.10.0
