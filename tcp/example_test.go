package tcp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/haul-project/haul/tcp"
)

// A server that answers lines. Each connection is served by a function that may
// block, and its state is in that function's variables.
func Example() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	s := &tcp.Server{
		IdleTimeout: time.Minute,
		MaxConns:    10000,
		Handle: func(ctx context.Context, c net.Conn) {
			lines := bufio.NewScanner(c)
			for n := 1; lines.Scan(); n++ {
				fmt.Fprintf(c, "%d: %s\n", n, strings.ToUpper(lines.Text()))
			}
		},
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
	fmt.Fprint(c, "hello\nworld\n")
	_ = c.(*net.TCPConn).CloseWrite() // there is nothing more to ask
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

// A server that never waits: a function is called with the bytes that have arrived, and
// leaves those of a line that is not complete.
func ExampleServer_onData() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	s := &tcp.Server{
		IdleTimeout: time.Minute,
		OnData: func(c *tcp.EventConn, data []byte) int {
			line, _, whole := bytes.Cut(data, []byte("\n"))
			if !whole {
				return 0 // the next call has these bytes and more
			}
			n, _ := c.State.(int) // nil at first
			c.State = n + 1
			fmt.Fprintf(c, "%d: %s\n", n+1, bytes.ToUpper(line))
			return len(line) + 1 // what follows is for the next call
		},
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
