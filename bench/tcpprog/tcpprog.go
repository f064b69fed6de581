// Package tcpprog contains the common part of the suite's TCP servers: flags, the answer, and the
// way in which a blocking handler serves connections. Each server is a program around a library, so
// that libraries can be compared by the CPU time and the memory of processes. The main function of
// a program is
//
//	func main() { tcpprog.Main("goroutines", serve) }
//
//	func serve(ctx context.Context, o tcpprog.Options) error
//
// The protocol is the smallest subset of HTTP/1.1 that a load generator accepts: a request ends
// with an empty line and has no body, and clients wait for an answer before they send the next
// request. If a library has its own HTTP server, this server is measured, with the same answer.
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

// Options holds the options of a server, which are flags of the program.
type Options struct {
	Listen    string        // address to listen at, as host:port
	Size      int           // size of an answer's body before encryption, in bytes
	Close     bool          // close the connection after the answer
	Encrypted bool          // encrypt the body with AES-128-CBC
	Delay     time.Duration // how long to wait before each answer
	Cert, Key string        // paths of a certificate and its key, for TLS from the first byte; "" means no TLS
	Dir       string        // serve the files of this directory instead of the answer, if the program can do that
	Defer     bool          // set TCP_DEFER_ACCEPT, if the library can do that

	// Under makes haultcp use package tcp only to accept connections, which net/http serves.
	Under bool

	// Events makes haultcp let package tcp call a function for received data.
	Events bool
}

// maxSize is the largest size of an answer's body, in bytes.
const maxSize = 1 << 20

// ErrNoFiles is the error of servers that can send only their one answer, and no files.
var ErrNoFiles = errors.New("-dir: this server has one answer, and no files")

// ErrNoTLS is the error of servers whose library does not support TLS.
var ErrNoTLS = errors.New("-cert: this library has no TLS")

// ErrNoDefer is the error of servers whose library cannot set TCP_DEFER_ACCEPT.
var ErrNoDefer = errors.New("-defer: this library cannot set TCP_DEFER_ACCEPT")

// Only returns an error if an option is set that the program does not support. The arguments say
// what it supports: serving files, TLS, and Defer.
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

// Main runs a server until it fails or is stopped by a signal. After a failure it exits with code
// 1.
func Main(name string, serve func(context.Context, Options) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := Run(ctx, name, os.Args[1:], serve)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Run parses the arguments and calls serve with the options.
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

// StacksLine is the format in which a program prints the size of its goroutines' stacks on SIGUSR1.
// The suite reports the size of stacks separately.
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

// TLS returns the configuration of TLS, or nil if there is no certificate. All programs that use
// Go's TLS have the same configuration: version 1.3, X25519, and no session resumption, because
// only some clients try to resume sessions.
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
		NextProtos: []string{"h2", "http/1.1"}, // a client offers one of these, or no protocol
	}, nil
}

// Listener returns a listener of package net, with TLS if there is a certificate. The listener is
// closed when ctx ends.
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
