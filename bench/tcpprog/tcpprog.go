// Package tcpprog is shared by the suite's TCP servers: flags, their answer, and the way in which
// a blocking handler serves connections. Each server is a program around a library, so that
// libraries are compared by the CPU time and the memory of processes. A main is
//
//	func main() { tcpprog.Main("goroutines", serve) }
//
//	func serve(ctx context.Context, o tcpprog.Options) error
//
// The protocol is the smallest subset of HTTP/1.1 that a load generator accepts: a request ends
// with an empty line and has no body, and clients wait for an answer before they send the next
// request. If a library has its own HTTP server, that is measured, with the same answer.
package tcpprog

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/metrics"
	"syscall"
	"time"
)

// Options are the options of a server.
type Options struct {
	Listen    string        // host:port
	Size      int           // bytes of an answer's body
	Close     bool          // the connection ends after the answer
	Encrypted bool          // the body is encrypted with AES-128-CBC
	Delay     time.Duration // before the answer
	Cert, Key string        // files, for TLS from the first byte; without them there is no TLS
	Dir       string        // serve the files of this directory instead, if the program can
	Defer     bool          // TCP_DEFER_ACCEPT, if the library has it

	// Under makes package tcp accept connections for net/http, in haultcp.
	Under bool

	// Events makes package tcp call a function for received data, in haultcp.
	Events bool
}

// maxSize bounds an answer's body, in bytes.
const maxSize = 1 << 20

// ErrNoFiles is returned by servers that can only give one answer.
var ErrNoFiles = errors.New("-dir: this server has one answer, and no files")

// ErrNoTLS is returned by servers whose library has none.
var ErrNoTLS = errors.New("-cert: this library has no TLS")

// ErrNoDefer is returned by servers whose library has no TCP_DEFER_ACCEPT.
var ErrNoDefer = errors.New("-defer: this library cannot set TCP_DEFER_ACCEPT")

// Only returns an error if an option is set that the program does not support.
func (o Options) Only(files, encrypted, deferred bool) error {
	switch {
	case o.Dir != "" && !files:
		return ErrNoFiles
	case o.Cert != "" && !encrypted:
		return ErrNoTLS
	case o.Defer && !deferred:
		return ErrNoDefer
	}
	return nil
}

// Main runs a server until it fails or is stopped, and ends the program.
func Main(name string, serve func(context.Context, Options) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := Run(ctx, name, os.Args[1:], serve)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Run executes the arguments.
func Run(ctx context.Context, name string, args []string, serve func(context.Context, Options) error) error {
	var o Options
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "`address` to serve on")
	f.IntVar(&o.Size, "size", 1024, "`bytes` of an answer")
	f.BoolVar(&o.Close, "close", false, "end the connection with the answer")
	f.BoolVar(&o.Encrypted, "encrypted", false, "encrypt each answer, by AES-128-CBC")
	f.DurationVar(&o.Delay, "delay", 0, "`time` to wait before each answer")
	f.StringVar(&o.Cert, "cert", "", "`file` of a certificate, to speak TLS")
	f.StringVar(&o.Key, "key", "", "`file` of its key")
	f.StringVar(&o.Dir, "dir", "", "`directory` whose files to serve, in place of the one answer")
	f.BoolVar(&o.Defer, "defer", false, "accept connections once their clients have sent something")
	f.BoolVar(&o.Under, "under", false, "have net/http serve what is accepted")
	f.BoolVar(&o.Events, "events", false, "serve by calls that never wait")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.Size < 1 || o.Size > maxSize {
		return fmt.Errorf("-size %d: an answer has 1 to %d bytes", o.Size, maxSize)
	}
	defer tellStacks(name)()
	return serve(ctx, o)
}

// StacksLine is the format in which a program prints the size of its goroutines' stacks on
// SIGUSR1. The suite counts them separately.
const StacksLine = "stacks of goroutines: %d bytes"

const stacksMetric = "/memory/classes/heap/stacks:bytes"

func tellStacks(name string) (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			s := []metrics.Sample{{Name: stacksMetric}}
			metrics.Read(s)
			fmt.Fprintf(os.Stderr, name+": "+StacksLine+"\n", s[0].Value.Uint64())
		}
	}()
	return func() {
		signal.Stop(asked)
		close(asked)
	}
}

// TLS returns the configuration of TLS, or nil without it. It is the same for all programs with
// Go's TLS: version 1.3, X25519, and no session resumption, since clients differ in whether they
// try it.
func (o Options) TLS() (*tls.Config, error) {
	if o.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("-cert and -key: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519}, SessionTicketsDisabled: true,
		NextProtos: []string{"h2", "http/1.1"}, // clients offer one of these, or none
	}, nil
}

// Listener returns a listener of package net, with TLS if requested. It is closed when ctx ends.
func (o Options) Listener(ctx context.Context) (net.Listener, error) {
	config, err := o.TLS()
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", o.Listen)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}
