package tcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/haul-project/haul/tcp"
)

// This server answers lines. Each connection is served by a function that may block, and its
// state is in that function's variables.
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
	_ = c.(*net.TCPConn).CloseWrite() // no more requests follow
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
