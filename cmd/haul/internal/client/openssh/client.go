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

// closeTime is how long Close may take to send data that the connection of [Dialer].Wrap still
// buffers.
const closeTime = 2 * time.Second

const defaultAliveCount = 3

// maxGreeting is the maximum number of bytes that an error shows of a greeting that is not SSH.
const maxGreeting = 16

// A Client is an authenticated SSH connection. It owns the connections below it, such as those to
// jump hosts.
type Client struct {
	*ssh.Client

	dest *Destination
	link *link
	conn *watched
	gone chan struct{} // closed when the connection is closed or lost
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

// Close closes the connection and the connections to its jump hosts, and stops its ProxyCommand.
func (c *Client) Close() error {
	cut := time.AfterFunc(closeTime, c.link.cut)
	defer cut.Stop()
	err := c.Client.Close()
	c.work.Wait()
	if isBroken(err) {
		return nil // the connection was lost before it could be closed, which is no failure of Close
	}
	return err
}

// RoundTrip returns the round trip to the host that this machine has a TCP connection to, as
// measured when connecting. It returns 0 if the time is not known, as with a ProxyCommand.
func (c *Client) RoundTrip() time.Duration { return c.link.trip }

// keepAlive sends a request whenever the server has been silent for some time, and cuts the
// connection if there is no answer. See ServerAliveInterval in ssh_config(5).
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
				// Any answer shows that the server is alive. Usually the answer is a refusal.
				_, _, _ = c.SendRequest("keepalive@openssh.com", true, nil)
			})
		}
	}
}

// A watched is a connection that records whether data has arrived and why the connection was lost.
type watched struct {
	net.Conn
	heard atomic.Int64 // number of reads that have returned data
	text  bool         // the first line has arrived completely, and was text; only Read uses this field
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

// greeting checks received bytes of the first line, which must be text (RFC 4253 §4.2). It does not
// wait until the line is complete, because a server of another protocol may send only a part of a
// line, and then wait for the client.
func (w *watched) greeting(b []byte) error {
	for _, c := range b {
		switch {
		case c == '\n':
			w.text = true
			return nil
		case c < ' ' && c != '\t' && c != '\r', c == 0x7f, c == 0xc0, c == 0xc1, c > 0xf4:
			// The bytes of the last three conditions never occur in UTF-8.
			return fmt.Errorf("no SSH server: it begins with %q, which is no text", b[:min(len(b), maxGreeting)])
		}
	}
	return nil
}

// give records err as the reason why the connection was lost, unless a reason was recorded before.
func (w *watched) give(err error) { w.why.CompareAndSwap(nil, &err) }

// lost returns the reason why no more data can arrive, or nil if the connection is intact.
func (w *watched) lost() error {
	if err := w.why.Load(); err != nil {
		return *err
	}
	return nil
}

// maxPreface is the maximum size of a [preface], in bytes.
const maxPreface = 1 << 10

// A preface is the text that a server sends before the line with its version (RFC 4253, section
// 4.2). Some servers that refuse to serve send only such a text, which gives the reason. x/crypto
// discards the text.
type preface struct {
	text []byte
	over bool // no more text is kept: the version has arrived, or the text is too long
}

// take appends received bytes to the text. After the version has arrived it does nothing. Until
// then, only the goroutine that waits for the version calls it.
func (p *preface) take(b []byte) {
	if p.over {
		return
	}
	p.text = append(p.text, b[:min(len(b), maxPreface-len(p.text))]...)
	if bytes.HasPrefix(p.text, []byte("SSH-")) || bytes.Contains(p.text, []byte("\nSSH-")) || len(p.text) == maxPreface {
		p.over = true
	}
}

// refuses reports whether a text comes from an SSH server that refuses to serve. Servers of other
// protocols answer our version with an error of their own: an HTTP answer, or a line that begins
// with a three-digit code.
func refuses(words string) bool {
	code := len(words) > 3 && strings.Trim(words[:3], "0123456789") == "" && strings.ContainsAny(words[3:4], " -")
	return !code && !strings.HasPrefix(words, "HTTP/")
}

// words returns the text on one line. It returns "" if the server has sent its version, or too much
// text.
func (p *preface) words() string {
	if p.over {
		return ""
	}
	return printable(strings.Join(strings.Fields(string(p.text)), " "))
}

// A link is the transport below an SSH connection.
type link struct {
	conn  net.Conn
	cut   func() // closes the connection at once, which interrupts all reads and writes
	jump  *Client
	proxy *proxyConn
	trip  time.Duration // how long connecting took, which is one round trip; 0 if unknown
}

// close closes the connection, and the connection to the jump host that it runs over.
func (l *link) close() {
	_ = l.conn.Close()
	if l.jump != nil {
		_ = l.jump.Close()
	}
}

// isBroken reports whether an error means that the connection failed. It returns false for an error
// of the protocol that runs over the connection.
func isBroken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	ends := []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrClosed, syscall.EPIPE}
	return network || slices.ContainsFunc(ends, func(e error) bool { return errors.Is(err, e) })
}
