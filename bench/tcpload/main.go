// Tcpload is the client side of the suite's TCP scenarios for everything that wrk does not do: it
// checks that a server's answers are right, holds idle connections, and makes a load if there is
// no wrk.
//
//	tcpload check -addr 127.0.0.1:8080 -size 1024
//	tcpload hold  -addr 127.0.0.1:8080 -n 10000
//	tcpload load  -addr 127.0.0.1:8080 -n 1000 -for 1s
//
// Hold prints "open N" when the connections are open, after one request on each, and exits when its
// standard input ends. Load prints a tcpprog.Load.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tcpload:", err)
		os.Exit(1)
	}
}

// These are the largest values of the arguments -n and -for.
const (
	maxConns = 20_000
	maxTime  = time.Minute
)

// request holds the arguments of the program.
type request struct {
	tcpprog.Client
	conns  int
	length time.Duration
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("the first argument says what to do: check, hold or load")
	}
	var r request
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&r.Addr, "addr", "127.0.0.1:8080", "`address` of the server")
	f.BoolVar(&r.TLS, "tls", false, "speak TLS")
	f.BoolVar(&r.Close, "close", false, "a connection for each request")
	f.IntVar(&r.Size, "size", 1024, "`bytes` that an answer is to have")
	f.StringVar(&r.Path, "path", "/", "`path` of the request")
	want := f.String("want", "", "`file` with the answer, in place of -size bytes")
	f.BoolVar(&r.Encrypted, "encrypted", false, "answers are, by AES-128-CBC")
	f.IntVar(&r.conns, "n", 1, "connections at the same time")
	f.DurationVar(&r.length, "for", time.Second, "`time` that the load takes, or that connections are held at the most")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if r.conns < 1 || r.conns > maxConns || r.length <= 0 || r.length > maxTime {
		return fmt.Errorf("-n is 1 to %d, and -for at most %v", maxConns, maxTime)
	}
	if *want != "" {
		b, err := os.ReadFile(*want)
		if err != nil {
			return err
		}
		r.Want = b
	}
	switch args[0] {
	case "check":
		return r.check(ctx)
	case "hold":
		return r.hold(ctx, in, out)
	case "load":
		return r.load(ctx, out)
	}
	return fmt.Errorf("cannot %q", args[0])
}
