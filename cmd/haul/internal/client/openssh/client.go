package openssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// closeTime is how long Close may take to send what a Wrap still holds.
const closeTime = 2 * time.Second

const defaultAliveCount = 3

// maxGreeting is how much of what is no greeting is shown, in bytes.
const maxGreeting = 16

// A Client is an authenticated connection, with all that it runs over.
type Client struct {
	*ssh.Client

	dest *Destination
	link *link
	conn *watched
	gone chan struct{} // closed when the connection has ended
	work sync.WaitGroup
}

func newClient(dest *Destination, l *link, conn *watched, client *ssh.Client) *Client {
	c := &Client{Client: client, dest: dest, link: l, conn: conn, gone: make(chan struct{})}
	c.work.Go(func() {
		_ = client.Wait()
		close(c.gone)
		l.close()
	})
	if dest.ServerAliveInterval > 0 {
		c.work.Go(c.keepAlive)
	}
	return c
}

// Close ends the connection, those to jump hosts below it, and its
// ProxyCommand.
func (c *Client) Close() error {
	cut := time.AfterFunc(closeTime, c.link.cut)
	defer cut.Stop()
	err := c.Client.Close()
	c.work.Wait()
	if isBroken(err) {
		return nil // it had ended before
	}
	return err
}

// RoundTrip returns how long it took to connect, which is a round trip to what was
// connected to. It is 0 if that is not known, as behind a ProxyCommand.
func (c *Client) RoundTrip() time.Duration { return c.link.trip }

// keepAlive asks a server that is silent for a sign of life, and cuts the
// connection if there is none. See ServerAliveInterval in ssh_config(5).
func (c *Client) keepAlive() {
	most := c.dest.ServerAliveCountMax
	if most <= 0 {
		most = defaultAliveCount
	}
	tick := time.NewTicker(c.dest.ServerAliveInterval)
	defer tick.Stop()
	var asking atomic.Bool
	heard, missed := c.conn.heard.Load(), 0
	for {
		select {
		case <-c.gone:
			return
		case <-tick.C:
		}
		if now := c.conn.heard.Load(); now != heard {
			heard, missed = now, 0
			continue
		}
		if missed == most {
			c.conn.give(fmt.Errorf("no sign of life from %s for %v: %w",
				c.dest.name(), c.dest.ServerAliveInterval*time.Duration(most+1), os.ErrDeadlineExceeded))
			c.link.cut()
			return
		}
		missed++
		if asking.CompareAndSwap(false, true) {
			c.work.Go(func() {
				defer asking.Store(false)
				// Any answer will do, and a refusal is the usual one.
				_, _, _ = c.SendRequest("keepalive@openssh.com", true, nil)
			})
		}
	}
}

// A watched is a connection that remembers how it is.
type watched struct {
	net.Conn
	heard atomic.Int64 // reads that brought something
	text  bool         // of Read: the first line has been text, and has ended
	why   atomic.Pointer[error]
	said  preface
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.heard.Add(1)
		w.said.take(b[:n])
	}
	if !w.text {
		if e := w.greeting(b[:n]); e != nil {
			return 0, e
		}
	}
	if err != nil {
		w.give(err)
		err = w.lost()
	}
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if err != nil {
		w.give(err)
	}
	return n, err
}

// greeting looks at what comes up to the end of the first line, which is text
// (RFC 4253 §4.2). A server of another protocol may wait for us to speak, and there
// is no use in waiting for its line to end.
func (w *watched) greeting(b []byte) error {
	for _, c := range b {
		switch {
		case c == '\n':
			w.text = true
			return nil
		case c < ' ' && c != '\t' && c != '\r', c == 0x7f, c == 0xc0, c == 0xc1, c > 0xf4: // the last are never in UTF-8
			return fmt.Errorf("no SSH server: it begins with %q, which is no text", b[:min(len(b), maxGreeting)])
		}
	}
	return nil
}

// give sets the reason for which the connection is lost, unless there is one.
func (w *watched) give(err error) { w.why.CompareAndSwap(nil, &err) }

// lost returns why nothing more will come; nil if something may.
func (w *watched) lost() error {
	if err := w.why.Load(); err != nil {
		return *err
	}
	return nil
}

// maxPreface is how many bytes are kept of what a server says before its version.
const maxPreface = 1 << 10

// A preface is what a server says before the line with its version (RFC 4253,
// section 4.2). Some say nothing else, but why they will not serve. x/crypto
// passes over it.
type preface struct {
	text []byte
	over bool // the version has come, or too much
}

// take takes more of what comes. Only the goroutine that waits for the version
// calls it, until it has come.
func (p *preface) take(b []byte) {
	if p.over {
		return
	}
	p.text = append(p.text, b[:min(len(b), maxPreface-len(p.text))]...)
	if bytes.HasPrefix(p.text, []byte("SSH-")) || bytes.Contains(p.text, []byte("\nSSH-")) || len(p.text) == maxPreface {
		p.over = true
	}
}

// refuses reports whether those are the words of an SSH server. Other protocols
// answer our version by an error of theirs: HTTP, or one of three digits.
func refuses(words string) bool {
	code := len(words) > 3 && strings.Trim(words[:3], "0123456789") == "" && strings.ContainsAny(words[3:4], " -")
	return !code && !strings.HasPrefix(words, "HTTP/")
}

// words returns what was said, in one line, if that is all that came.
func (p *preface) words() string {
	if p.over {
		return ""
	}
	return printable(strings.Join(strings.Fields(string(p.text)), " "))
}

// A link is what an SSH connection runs over.
type link struct {
	conn  net.Conn
	cut   func() // ends it at once, so that all waiting on it ends
	jump  *Client
	proxy *proxyConn
	trip  time.Duration // how long it took to connect: a round trip; 0 if it is not known
}

// close ends a link and all it needs.
func (l *link) close() {
	_ = l.conn.Close()
	if l.jump != nil {
		_ = l.jump.Close()
	}
}

// isBroken reports whether an error is one of the connection, and not of what
// was said over it.
func isBroken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	ends := []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrClosed, syscall.EPIPE}
	return network || slices.ContainsFunc(ends, func(e error) bool { return errors.Is(err, e) })
}
