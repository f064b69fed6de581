// Package sftpprog contains the common part of the suite's SFTP programs: flags, keys, and output.
// Each program is built around a library, so that libraries can be compared with each other, and
// with programs by others, by the CPU time of processes. The main function of a program is
//
//	func main() { sftpprog.Main("pkgsftp", library{}) }
//
// The programs serve a directory, move a whole file as fast as their library can, or read and write
// a file through a buffer of a given size.
package sftpprog

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// A Library is the client and the server of an SFTP library.
type Library interface {
	// Dial connects to addr, logs in, and opens an SFTP session.
	Dial(ctx context.Context, addr string, login *ssh.ClientConfig, o Options) (Client, error)

	// Serve accepts connections from l and serves a directory until ctx ends.
	Serve(ctx context.Context, l net.Listener, config *ssh.ServerConfig, dir string) error
}

// A Client is an SFTP client that has logged in.
type Client interface {
	// Get copies a file from the server to an empty local file, and Put copies a local file to the
	// server, both by the library's fastest method.
	Get(ctx context.Context, remote string, to *os.File) error
	Put(ctx context.Context, from *os.File, remote string) error

	// Open opens a file on the server for reading through a buffer, and Create creates a file for
	// writing through a buffer.
	Open(ctx context.Context, remote string) (io.ReadCloser, error)
	Create(ctx context.Context, remote string) (io.WriteCloser, error)

	Close() error
}

// Options holds settings for experiments. A library refuses settings that it does not support.
type Options struct {
	Delay            bool // do not set TCP_NODELAY
	Requests         int  // largest number of requests under way; 0 leaves it to the library
	RequestBytes     int  // largest size of a request in bytes; 0 leaves it to the library
	ConcurrentWrites bool // let File.Write split a large buffer into requests that overlap
}

// A Result is what a client prints, as JSON.
type Result struct {
	Login   float64 `json:"login_seconds"`
	Seconds float64 `json:"seconds"` // time to move the file, including opening and closing it
	Bytes   int64   `json:"bytes"`
}

// The commands of a program, which are its first argument.
const (
	Serve = "serve"
	Get   = "get"
	Put   = "put"
	Read  = "read"  // read a file through a buffer, without keeping the data
	Write = "write" // write a file from a buffer of zeros

	StreamGet = "stream-get" // download a file by io.Copy
	StreamPut = "stream-put" // upload a file by io.Copy
)

// Main runs a program around a library, and exits.
func Main(name string, l Library) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, l, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// program holds the arguments of a program.
type program struct {
	library Library
	addr    string
	keys    keyFiles
	options Options

	dir, remote, local string
	buffer             int
	size               int64
	limit              time.Duration
}

// Run executes the command in args. A client writes its Result to out. A server stops when ctx
// ends.
func Run(ctx context.Context, l Library, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("the first argument says what to do: %s, %s, %s, %s, %s, %s or %s", Serve, Get, Put, Read, Write, StreamGet, StreamPut)
	}
	p := program{library: l}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&p.addr, "addr", "127.0.0.1:2222", "`address` of the server")
	f.StringVar(&p.keys.user, "user", "root", "`name` to log in with")
	f.StringVar(&p.keys.private, "key", "", "`file` with the private key: the client's, or the host's")
	f.StringVar(&p.keys.others, "trust", "", "`file` with whom to trust: known_hosts, or authorized_keys")
	f.StringVar(&p.keys.cipher, "cipher", "", "`name` of the one cipher to use; all if empty")
	f.StringVar(&p.dir, "dir", ".", "`directory` to serve")
	f.StringVar(&p.remote, "remote", "", "`name` at the server")
	f.StringVar(&p.local, "local", "", "`name` here")
	f.IntVar(&p.buffer, "buffer", 32<<10, "`bytes` to read or write at once")
	f.Int64Var(&p.size, "size", 1<<20, "`bytes` to write")
	f.DurationVar(&p.limit, "limit", time.Minute, "`time` after which to read or write no more")
	f.BoolVar(&p.options.Delay, "delay", false, "leave Nagle's algorithm on")
	f.IntVar(&p.options.Requests, "requests", 0, "most requests on their way; 0 leaves it to the library")
	f.IntVar(&p.options.RequestBytes, "request-bytes", 0, "most `bytes` of each request; 0 leaves it to the library")
	f.BoolVar(&p.options.ConcurrentWrites, "concurrent-writes", false, "let one call of File.Write make requests that overlap")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == Serve {
		return p.serve(ctx)
	}
	return p.client(ctx, args[0], out)
}

func (p *program) serve(ctx context.Context) error {
	config, err := p.keys.server()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	if p.options.Delay {
		listener = delayed{listener}
	}
	return p.library.Serve(ctx, listener, config, p.dir)
}

// delayed is a listener whose connections do not have TCP_NODELAY set. They hide the method with
// which a library would set it.
type delayed struct{ net.Listener }

func (l delayed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := c.(*net.TCPConn).SetNoDelay(false); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return struct{ net.Conn }{c}, nil
}

func (p *program) client(ctx context.Context, verb string, out io.Writer) error {
	act, ok := map[string]func(context.Context, Client) (int64, error){Get: p.get, Put: p.put, Read: p.read, Write: p.write,
		StreamGet: p.streamGet, StreamPut: p.streamPut}[verb]
	if !ok {
		return fmt.Errorf("cannot %q", verb)
	}
	login, err := p.keys.client()
	if err != nil {
		return err
	}
	var r Result
	began := time.Now()
	c, err := p.library.Dial(ctx, p.addr, login, p.options)
	if err != nil {
		return fmt.Errorf("log in at %s: %w", p.addr, err)
	}
	r.Login = time.Since(began).Seconds()
	began = time.Now()
	r.Bytes, err = act(ctx, c)
	r.Seconds = time.Since(began).Seconds()
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("%s %s: %w", verb, p.remote, err)
	}
	return json.NewEncoder(out).Encode(r)
}

func (p *program) get(ctx context.Context, c Client) (int64, error) {
	to, err := os.Create(p.local)
	if err != nil {
		return 0, err
	}
	err = c.Get(ctx, p.remote, to)
	info, failed := to.Stat()
	if err = errors.Join(err, failed, to.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (p *program) put(ctx context.Context, c Client) (int64, error) {
	from, err := os.Open(p.local)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), c.Put(ctx, from, p.remote)
}

// These types hide all methods of a local file but Read or Write, so that io.Copy uses only the
// methods of the library's file.
type (
	sourceStream struct{ io.Reader }
	targetStream struct{ io.Writer }
)

func (p *program) streamGet(ctx context.Context, c Client) (int64, error) {
	from, err := c.Open(ctx, p.remote)
	if err != nil {
		return 0, err
	}
	to, err := os.Create(p.local)
	if err != nil {
		return 0, errors.Join(err, from.Close())
	}
	n, err := io.Copy(targetStream{to}, from)
	return n, errors.Join(err, from.Close(), to.Close())
}

func (p *program) streamPut(ctx context.Context, c Client) (int64, error) {
	from, err := os.Open(p.local)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := c.Create(ctx, p.remote)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, sourceStream{from})
	return n, errors.Join(err, to.Close())
}

// read reads the remote file until its end, or until the time is over.
func (p *program) read(ctx context.Context, c Client) (int64, error) {
	f, err := c.Open(ctx, p.remote)
	if err != nil {
		return 0, err
	}
	deadline, buffer, total := time.Now().Add(p.limit), make([]byte, p.buffer), int64(0)
	for time.Now().Before(deadline) {
		n, err := io.ReadFull(f, buffer)
		total += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return total, errors.Join(err, f.Close())
		}
	}
	return total, f.Close()
}

// write writes the remote file until it has the wanted size, or until the time is over.
func (p *program) write(ctx context.Context, c Client) (int64, error) {
	f, err := c.Create(ctx, p.remote)
	if err != nil {
		return 0, err
	}
	deadline, buffer, total := time.Now().Add(p.limit), make([]byte, p.buffer), int64(0)
	for total < p.size && time.Now().Before(deadline) {
		n, err := f.Write(buffer[:min(int64(len(buffer)), p.size-total)])
		total += int64(n)
		if err != nil {
			return total, errors.Join(err, f.Close())
		}
	}
	return total, f.Close()
}
