package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/haul-project/haul/internal/openssh"
)

// A connection that is cut in the middle has its exit code, and the next run with
// --continue resumes.
func TestSFTPConnectionLost(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 4<<20/16)
	l := startLab(t, map[string]string{"big": content})
	var left atomic.Int64
	left.Store(2 << 20)
	between := listen(t, func(c net.Conn) {
		defer c.Close()
		server, err := net.Dial("tcp", l.addr)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, c)
			server.Close() // else it waits for a client that has gone
		}()
		buf := make([]byte, 16<<10)
		for left.Load() > 0 {
			n, err := server.Read(buf)
			left.Add(-int64(n))
			if _, e := c.Write(buf[:n]); err != nil || e != nil {
				return
			}
		}
	})
	l.configure("IdentityFile "+l.key, "HostKeyAlias [127.0.0.1]:"+l.port)
	here := t.TempDir()
	code, _, msg := l.haul("get", "--continue", "sftp://"+between+"/big", here)
	if code != exitNoAnswer || !strings.Contains(msg, "connection lost") || !strings.Contains(msg, "the same command resumes there") {
		t.Errorf("exit code %d, want %d: %s", code, exitNoAnswer, msg)
	}
	if _, err := os.Stat(filepath.Join(here, "big")); err == nil {
		t.Error("it has its name, and is not whole")
	}
	left.Store(1 << 40)
	if code, _, msg := l.haul("get", "--continue", "sftp://"+between+"/big", here); code != 0 {
		t.Errorf("the next run: exit code %d, %s", code, msg)
	}
	wantTree(t, here, map[string]string{"big": content})
}

// A connection lost during an upload is reported once.
func TestSFTPConnectionLostSending(t *testing.T) {
	l := startLab(t, nil)
	var left atomic.Int64
	left.Store(2 << 20)
	between := listen(t, func(c net.Conn) {
		defer c.Close()
		server, err := net.Dial("tcp", l.addr)
		if err != nil {
			return
		}
		defer server.Close()
		go func() { _, _ = io.Copy(c, server) }()
		buf := make([]byte, 16<<10)
		for left.Load() > 0 {
			n, err := c.Read(buf)
			left.Add(-int64(n))
			if _, e := server.Write(buf[:n]); err != nil || e != nil {
				return
			}
		}
	})
	l.configure("IdentityFile "+l.key, "HostKeyAlias [127.0.0.1]:"+l.port)
	big := filepath.Join(t.TempDir(), "big")
	writeFile(t, big, strings.Repeat("0123456789abcdef", 8<<20/16))
	code, _, msg := l.haul("put", big, "sftp://"+between+"/")
	if code != exitNoAnswer || !strings.Contains(msg, "put "+big+": ") || strings.Count(msg, "connection lost") != 1 {
		t.Errorf("exit code %d, want %d: %s", code, exitNoAnswer, msg)
	}
}

// A counting is a Prompter that knows the password, and how often it was asked.
type counting struct {
	openssh.Batch
	asked int
}

func (c *counting) Password(context.Context, string, string) (string, error) {
	c.asked++
	return "open sesame", nil
}

// Further connections ask nothing, and take the password that the first was
// given. They go when the client closes them.
func TestFurtherConnections(t *testing.T) {
	l := startLabWith(t, labOptions{password: "open sesame"}, map[string]string{"f": ""})
	l.configure("PreferredAuthentications password")
	f := sshFlags{config: l.config}
	said := 0
	r := f.remotes(io.Discard, func(string) { said++ })
	defer r.close()
	asked := new(counting)
	r.dialer.Prompter = asked
	where, err := parseLocation("lab:")
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.connect(t.Context(), where, "")
	if err != nil {
		t.Fatal(err)
	}
	another, err := r.further(c.dest)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := another.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Error(err)
	}
	if err := another.Close(); err != nil {
		t.Error(err)
	}
	if asked.asked != 1 || said != 0 {
		t.Errorf("%d questions, and %d messages", asked.asked, said)
	}
	if again, err := r.connect(t.Context(), where, ""); err != nil || again != c {
		t.Errorf("a second connection to the same server, %v", err)
	}
	// To a host whose password is not known they fail rather than ask.
	r.dialer = openssh.Dialer{Prompter: asked}
	if _, err := r.further(c.dest)(t.Context()); !errors.Is(err, openssh.ErrAuth) || asked.asked != 1 {
		t.Errorf("%v, and %d questions", err, asked.asked)
	}
}
