package main

import (
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/sftpclient"
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
