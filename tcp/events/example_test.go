package events_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tcp/events"
)

// This server never waits: a function is called with the received bytes, and leaves those of an
// incomplete line.
func Example() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	s := &tcp.Server{
		IdleTimeout: time.Minute,
		Driver: &events.Handler{OnData: func(c *events.Conn, data []byte) int {
			line, _, whole := bytes.Cut(data, []byte("\n"))
			if !whole {
				return 0 // the next call has these bytes and more
			}
			n, _ := c.State.(int) // nil at first
			c.State = n + 1
			fmt.Fprintf(c, "%d: %s\n", n+1, bytes.ToUpper(line))
			return len(line) + 1 // the rest is for the next call
		}},
	}
	socket, err := tcp.Listen(ctx, "127.0.0.1:0", tcp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error)
	go func() { served <- s.Serve(ctx, socket) }()

	c, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprint(c, "hello\nwor")
	fmt.Fprint(c, "ld\n")
	_ = c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	fmt.Print(string(answer))
	c.Close()

	end()
	fmt.Println(err, <-served)
	// Output:
	// 1: HELLO
	// 2: WORLD
	// <nil> <nil>
}
