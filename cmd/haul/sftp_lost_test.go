package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A connection cut in the middle of a copy has its own exit code, and the next run with --continue
// resumes.
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
			server.Close() // otherwise it would wait for a client that has gone
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
