//go:build linux

package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// vanishAfter is the latest time at which a client of a soak is killed.
const vanishAfter = 300 * time.Millisecond

// A treeClient uses HTTP or SFTP, and performs one operation after the other.
type treeClient struct {
	*soakAll
	id      int
	random  *rand.Rand
	scratch string // a directory
	name    string // name of the protocol, and of the file that only this client writes
	count   uint64
	get     func(ctx context.Context, name string, spoiled bool) ([]byte, error)
	put     func(ctx context.Context, name string, b []byte, spoiled bool) error
	bad     []func(ctx context.Context) error

	stored [][]byte // possible contents on the server: the last confirmed one, and later unconfirmed ones
}

func (c *treeClient) own() string { return fmt.Sprintf("%s%d", c.name, c.id) }

// act performs one operation. If its connection is cut, it may fail, but its result must never be
// wrong.
func (c *treeClient) act(ctx context.Context) {
	fulls, spoiled := c.fulls.Load(), c.random.IntN(3) == 0
	var what string
	var err error
	switch n := c.random.IntN(10); {
	case n < 4:
		what = c.name + " get"
		i := c.random.IntN(len(soakSizes))
		err = c.fetch(ctx, soakFile(i), described(uint64(i), soakSizes[i]), spoiled)
	case n < 7:
		what = c.name + " put"
		if err = c.upload(ctx, spoiled); err == nil {
			err = c.fetch(ctx, c.own(), c.stored[0], spoiled)
		}
	default:
		what = c.name + " misbehaves"
		err = c.bad[c.random.IntN(len(c.bad))](ctx)
	}
	var wrong *wrongContent
	if err != nil && (errors.As(err, &wrong) || !spoiled && !c.excuse(fulls) && ctx.Err() == nil) {
		c.failed.add(fmt.Errorf("client %d: %s: %w", c.id, what, err))
	}
	c.did(what)
}

type wrongContent struct{ text string }

func (w *wrongContent) Error() string { return w.text }

func (c *treeClient) fetch(ctx context.Context, name string, want []byte, spoiled bool) error {
	got, err := c.get(ctx, name, spoiled)
	if err == nil && !bytes.Equal(got, want) {
		err = &wrongContent{fmt.Sprintf("get %s: %d bytes are not the %d that it has", name, len(got), len(want))}
	}
	return err
}

// upload stores a file. If it fails, the file may nevertheless exist, because the answer was
// lost.
func (c *treeClient) upload(ctx context.Context, spoiled bool) error {
	c.count++
	b := described(uint64(c.id+100)<<32|c.count, 16+c.random.IntN(300_000))
	c.stored = append(c.stored, b)
	err := c.put(ctx, c.own(), b, spoiled)
	if err == nil {
		c.stored = [][]byte{b}
	}
	return err
}

// settle stores a last file, when the disk has space.
func (c *treeClient) settle(t *testing.T) {
	t.Helper()
	if err := c.upload(t.Context(), false); err != nil {
		t.Error(err)
	}
}

func (c *treeClient) wantStored(t *testing.T) {
	t.Helper()
	wantFile(t, filepath.Join(c.dir, c.own()), c.stored[0])
}

func newWebClient(a *soakAll, c *treeClient) *treeClient {
	c.name = "http"
	client := &http.Client{Timeout: scalePatience, Transport: aloneTransport()}
	url := func(name string, spoiled bool) string {
		if spoiled {
			return "http://" + a.webWire.l.Addr().String() + "/" + name
		}
		return a.web + "/" + name
	}
	do := func(ctx context.Context, method, url string, body []byte) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		answer, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode/100 != 2 {
			err = fmt.Errorf("%s %s: %s", method, url, answer.Status)
		}
		return b, err
	}
	c.get = func(ctx context.Context, name string, spoiled bool) ([]byte, error) {
		return do(ctx, http.MethodGet, url(name, spoiled), nil)
	}
	c.put = func(ctx context.Context, name string, b []byte, spoiled bool) error {
		_, err := do(ctx, http.MethodPut, url(name, spoiled), b)
		return err
	}
	address := strings.TrimPrefix(a.web, "http://")
	c.bad = []func(context.Context) error{
		func(ctx context.Context) error { return c.half(ctx, address, "GET /file9 HT") },
		func(ctx context.Context) error {
			return c.half(ctx, address, "GET /file9 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		},
		func(ctx context.Context) error {
			return c.half(ctx, address, "PUT /lie-http HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n"+strings.Repeat("x", 20_000))
		},
		func(ctx context.Context) error { return c.half(ctx, address, "\x16\x03\x01nonsense\r\n\r\n") },
		func(ctx context.Context) error {
			if _, err := do(ctx, http.MethodGet, a.web+"/nowhere", nil); err == nil {
				return &wrongContent{"a file that is not there was sent"}
			}
			return nil
		},
	}
	return c
}

// half sends the beginning of a request, reads a little, and disconnects abruptly, at once or
// after a while.
func (c *treeClient) half(ctx context.Context, address, text string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	if c.random.IntN(2) == 0 {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = conn.Read(make([]byte, 1000))
	}
	return conn.(*net.TCPConn).SetLinger(0)
}

// newSFTPClient uses haul's own commands: a process for each copy, which can be killed.
func newSFTPClient(a *soakAll, c *treeClient) *treeClient {
	c.name = "sftp"
	run := func(ctx context.Context, spoiled bool, args ...string) error {
		ctx, cancel := context.WithTimeout(ctx, scalePatience)
		defer cancel()
		config := a.direct
		if spoiled {
			config = a.spoiled
		}
		said, err := c.server.run(ctx, append(args, "--batch", "-q", "-F", config)...)
		if err != nil {
			err = fmt.Errorf("haul %s: %w, and it said %q", strings.Join(args, " "), err, said)
		}
		return err
	}
	c.get = func(ctx context.Context, name string, spoiled bool) ([]byte, error) {
		local := filepath.Join(c.scratch, "got")
		if err := run(ctx, spoiled, "get", "server:/"+name, local); err != nil {
			return nil, err
		}
		return os.ReadFile(local)
	}
	file := filepath.Join(c.scratch, "put")
	c.put = func(ctx context.Context, name string, b []byte, spoiled bool) error {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			return err
		}
		return run(ctx, spoiled, "put", file, "server:/"+name)
	}
	c.bad = []func(context.Context) error{
		func(ctx context.Context) error { return c.half(ctx, a.wire.to, "SSH-2.0-gone\r\n") },
		func(ctx context.Context) error { return c.half(ctx, a.wire.to, "GET / HTTP/1.1\r\n\r\n") },
		func(context.Context) error {
			conn, err := ssh.Dial("tcp", a.wire.to, &ssh.ClientConfig{User: "haul", Timeout: startPatience,
				Auth: []ssh.AuthMethod{ssh.Password("wrong")}, HostKeyCallback: ssh.FixedHostKey(a.login.host)})
			if err == nil {
				conn.Close()
				return &wrongContent{"a wrong password was accepted"}
			}
			return nil
		},
		func(ctx context.Context) error { // killed during an upload
			b := described(uint64(c.id+200)<<32|c.count, 300_000)
			if err := os.WriteFile(file, b, 0o600); err != nil {
				return err
			}
			c.stored = append(c.stored, b)
			cmd := c.server.command(ctx, "put", "--batch", "-q", "--limit", "1MB", "-F", a.direct, file, "server:/"+c.own())
			if err := cmd.Start(); err != nil {
				return err
			}
			time.Sleep(time.Duration(c.random.Int64N(int64(vanishAfter))))
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
			_ = cmd.Wait()
			return nil
		},
	}
	return c
}
