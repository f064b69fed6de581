package main

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
)

// A thousand silent connections do not keep out clients from other addresses.
func TestServeSFTPFlood(t *testing.T) {
	s := startSFTP(t, childOptions{}, servedDir(t, map[string]string{"kernel": "image"}), "--metrics", "127.0.0.1:0")
	var silent []net.Conn
	defer func() {
		for _, c := range silent {
			c.Close()
		}
	}()
	for range 1000 {
		c, err := net.Dial("tcp4", s.at)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 99)}, Timeout: patience}
	nc, err := elsewhere.Dial("tcp4", s.at)
	if err != nil {
		t.Fatal(err)
	}
	sc, channels, requests, err := ssh.NewClientConn(nc, s.at, s.once())
	if err != nil {
		t.Fatal(err)
	}
	c, err := sftpclient.New(t.Context(), ssh.NewClient(sc, channels, requests), sftpclient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	(&sftpFiles{t, c}).wantRead("kernel", "image")
	s.wantMetric("haul_sftp_handshakes 10")  // the limit of one source
	s.wantMetric("haul_sftp_connections 75") // and 64 more wait
	s.wantMetric(`haul_refused_total{protocol="sftp",reason="address"} 926`)
	if n := strings.Count(s.stop(), "connections turned away"); n > 100 {
		t.Errorf("%d lines are about it", n)
	}
}

// If the disk is full, the client gets an error. Nothing is left of its upload, and existing files
// stay.
func TestServeSFTPDiskFull(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("haul-test", dir, "tmpfs", 0, "size=1m,mode=0777"); err != nil {
		t.Skipf("no file system to fill: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	writeFile(t, filepath.Join(dir, "log"), "old")
	for _, flag := range []string{"--sftp-in-place=false", "--sftp-in-place"} {
		s := startSettledSFTP(t, dir, flag)
		f := s.files(s.once())
		err := f.write("big", strings.Repeat("x", 2<<20))
		if !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("%s: an upload of 2 MiB: %v", flag, err)
		}
		said := s.await("result=failed direction=write file=/big")
		if !strings.Contains(said, "no space left") {
			t.Errorf("%s: the log does not say why", flag)
		}
		if flag == "--sftp-in-place" {
			f.want("remove", f.Remove(t.Context(), "big"))
		}
		wantNames(t, dir, "log")
		f.wantWrite("small", "fits")
		f.want("remove", f.Remove(t.Context(), "small"))
		wantFile(t, filepath.Join(dir, "log"), "old")
		s.stop()
	}
}
