package sftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// The following tests repeat incidents of other servers. Those about paths are in
// TestServerConfinement, about keys in TestServerUsers, about time in TestServerLoginGrace and
// TestServerIdle, about panics in TestServerPanics, and about guessing in TestServerPenalties.

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	for range 3 { // the second collection frees the content of pools
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Channels that are opened and refused leave nothing behind (CVE-2026-39827).
func TestRefusedChannels(t *testing.T) {
	n := race.Fewer(100_000, 10)
	if testing.Short() {
		n = 5_000
	}
	w := newTestServer(t, nil)
	s := newRawSSH(w.connect("192.0.2.1"))
	if err := s.login(); err != nil {
		t.Fatal(err)
	}
	some := func(n int) {
		go func() {
			for i := range n {
				if s.write(message(msgChannelOpen, "direct-tcpip", uint32(i), uint32(1<<20), uint32(1<<15), "host", uint32(1))) != nil {
					return
				}
			}
		}()
		for i := range n {
			b, err := s.wait(92)
			if err != nil {
				t.Fatalf("channel %d: %v", i, err)
			}
			if reason := binary.BigEndian.Uint32(b[5:]); reason != uint32(ssh.Prohibited) {
				t.Fatalf("channel %d is refused for reason %d", i, reason)
			}
		}
	}
	some(n / 100)
	before := heap()
	some(n)
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("%d refused channels take %d bytes", n, grown)
	}
	p := s.session(t)
	p.put("file", "x")
}

// Sessions that have ended leave nothing behind.
func TestManySessions(t *testing.T) {
	w := newTestServer(t, nil)
	c := w.login("192.0.2.1")
	some := func(n int) {
		for range n {
			ch, requests, err := c.OpenChannel("session", nil)
			if err != nil {
				time.Sleep(time.Millisecond) // the last sessions may not have ended completely
				continue
			}
			go ssh.DiscardRequests(requests)
			if ok, err := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"})); !ok || err != nil {
				t.Fatal(err)
			}
			_ = ch.Close()
		}
	}
	some(100)
	before, goroutines := heap(), runtime.NumGoroutine()
	some(1000)
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("sessions take %d bytes", grown)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 100 {
		t.Errorf("%d more goroutines", n)
	}
}

// Answers without requests have no effect, and do not prevent a connection from being closed
// (CVE-2026-39830).
func TestUnsolicitedReplies(t *testing.T) {
	w := newTestServer(t, nil)
	s := newRawSSH(w.connect("192.0.2.1"))
	if err := s.login(); err != nil {
		t.Fatal(err)
	}
	p := s.session(t)
	before := heap()
	theirs := p.rw.(*rawChannel).theirs
	for i := range 20_000 {
		for _, b := range [][]byte{{msgGlobalSuccess}, {msgGlobalFailure}, message(msgChannelSuccess, theirs), message(100, theirs)} {
			if err := s.write(b); err != nil {
				t.Fatalf("after %d: %v", i, err)
			}
		}
	}
	p.put("file", "x")
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("they take %d bytes", grown)
	}
	ended := make(chan struct{})
	go func() {
		w.end()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the connection cannot be closed")
	}
}

// Extended data is dropped, and its window is returned (CVE-2026-54886, where a server looped for
// ever).
func TestExtendedData(t *testing.T) {
	w := newTestServer(t, nil)
	s := newRawSSH(w.connect("192.0.2.1"))
	if err := s.login(); err != nil {
		t.Fatal(err)
	}
	p := s.session(t)
	before := heap()
	theirs := p.rw.(*rawChannel).theirs
	window := 2 << 20
	piece := make([]byte, 32<<10)
	for sent := 0; sent < 32<<20; sent += len(piece) {
		for window < len(piece) {
			b, err := s.wait(msgWindowAdjust)
			if err != nil {
				t.Fatal(err)
			}
			window += int(binary.BigEndian.Uint32(b[5:]))
		}
		if err := s.write(message(msgExtendedData, theirs, uint32(1+sent>>15&1), piece)); err != nil {
			t.Fatal(err)
		}
		window -= len(piece)
	}
	p.put("file", "x")
	p.wantFile("file", "x")
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("it takes %d bytes", grown)
	}
}

// The server stops reading from a peer that never reads its answers. Such a peer only uses the
// buffers of a session (proftpd's zero windows, CVE-2026-63090).
func TestNoWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, slow, s, p, _ := newSlowRead(t)
		slow.read.Store(0)
		theirs, err := s.open(1, 1000) // a second session, with a window of 1000 bytes
		if err != nil {
			t.Fatal(err)
		}
		q := &sftpPeer{t: t, rw: &rawChannel{s: s, mine: 1, theirs: theirs}}
		q.begin()
		q.send(wire.AppendOpen(nil, q.n(), "file", wire.OpenRead, wire.Attrs{}))
		h2 := string(q.reply().Handle)
		before := heap()
		room := 2<<20 - 1000
		for sent := 0; sent < room-1000; {
			b := wire.AppendRead(nil, q.n(), h2, 0, maxData)
			if err := s.write(message(msgChannelData, theirs, b)); err != nil {
				t.Fatal(err)
			}
			sent += len(b)
		}
		synctest.Wait()
		if n := slow.read.Load(); n > 2*bigBuffer {
			t.Errorf("%d bytes were read for a peer that takes none", n)
		}
		if grown := heap() - before; grown > 16<<20 {
			t.Errorf("it takes %d bytes", grown)
		}
		for range 60 { // meanwhile other requests are answered
			time.Sleep(time.Minute)
			p.name(wire.AppendRealpath(nil, p.n(), "."))
		}
		w.end()
	})
}

// A peer that neither reads nor sends requests counts as idle.
func TestDeafPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, nil)
		nc := w.connect("192.0.2.1")
		s := newRawSSH(nc)
		if err := s.login(); err != nil {
			t.Fatal(err)
		}
		p := s.session(t)
		h := p.open("file", openAnew|wire.OpenRead)
		p.write(h, 0, testBytes(maxData))
		for range 100 { // 25 MB, of which 1 MiB fits into the wire
			p.send(wire.AppendRead(nil, p.n(), h, 0, maxData))
		}
		began := time.Now()
		e := w.last(1)
		if took := time.Since(began); !errors.Is(e.Err, errIdle) || took > defaultIdleTimeout+time.Minute {
			t.Errorf("it ended by %v after %v", e.Err, took)
		}
	})
}

// Malformed packets with correct encryption end one connection (CVE-2026-46597).
func TestBrokenPackets(t *testing.T) {
	broken := map[string][]byte{
		"empty":             {},
		"padding only":      {4},
		"padding too long":  {255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"all padding":       {15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"too little":        {3, 80, 0, 0, 0},
		"a global request":  {10, 80, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a channel's open":  {4, msgChannelOpen, 0, 0, 0, 9, 'x', 0, 0, 0, 0},
		"a channel's data":  {4, msgChannelData, 0, 0, 0, 0, 0, 0, 0, 0},
		"unknown channel":   {4, msgChannelData, 0, 0, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0},
		"unknown message":   {4, 250, 0, 0, 9, 9, 0, 0, 0, 0},
		"a second newkeys":  {4, msgNewKeys, 0, 0, 0, 0},
		"another login":     {4, msgUserauth, 0, 0, 0, 0},
		"a key exchange":    {4, msgECDHInit, 0, 0, 0, 0},
		"a broken exchange": {4, 20, 0, 0, 0, 0},
	}
	w := newTestServer(t, nil)
	quiet := w.sftp(w.login("192.0.2.2"))
	for name, plain := range broken {
		s := newRawSSH(w.connect("192.0.2.1"))
		if err := s.login(); err != nil {
			t.Fatal(err)
		}
		p := s.session(t)
		p.put("file", name)
		if err := s.writePlain(plain); err != nil {
			t.Fatal(err)
		}
		_, _ = p.rw.Write(wire.AppendRealpath(nil, p.n(), "."))
		s.nc.Close()
		quiet.wantFile("file", name)
	}
	if n := w.server.Counters().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

// Before the login, any number of messages costs little (CVE-2025-26466), and messages inserted
// between the first ones are detected (Terrapin, CVE-2023-48795).
func TestStrangePrelude(t *testing.T) {
	tests := map[string]func(s *rawSSH) error{
		"an ignored message before KEXINIT": func(s *rawSSH) error {
			if _, err := io.WriteString(s.nc, rawVersion+"\r\n"); err != nil {
				return err
			}
			return s.write(message(msgIgnore, "x"))
		},
		"an ignored message after KEXINIT": func(s *rawSSH) error {
			mine, theirs, err := s.hello()
			if err != nil {
				return err
			}
			if err := s.write(message(msgIgnore, "x")); err != nil {
				return err
			}
			return s.exchange(mine, theirs)
		},
		"pings": func(s *rawSSH) error {
			if _, _, err := s.hello(); err != nil {
				return err
			}
			ping := message(msgPing, make([]byte, 30<<10))
			for range 10_000 {
				if err := s.write(ping); err != nil {
					return err
				}
			}
			return nil
		},
		"a login before keys": func(s *rawSSH) error {
			if _, _, err := s.hello(); err != nil {
				return err
			}
			return s.write(message(msgServiceRequest, "ssh-userauth"))
		},
		"a channel before the login": func(s *rawSSH) error {
			if err := rawKeys(s); err != nil {
				return err
			}
			if err := s.write(message(msgServiceRequest, "ssh-userauth")); err != nil {
				return err
			}
			return s.write(message(msgChannelOpen, "session", uint32(0), uint32(1<<20), uint32(1<<15)))
		},
	}
	w := newTestServer(t, func(_ *testServer, s *Server) { s.Exempt = allNetworks })
	for name, prelude := range tests {
		before := heap()
		s := newRawSSH(w.connect("192.0.2.1"))
		err := prelude(s)
		if err == nil {
			_, err = s.wait(msgUserauthOK)
		}
		if err == nil {
			t.Errorf("%s: there is a login", name)
		}
		if grown := heap() - before; grown > 4<<20 {
			t.Errorf("%s takes %d bytes", name, grown)
		}
		s.nc.Close()
	}
	// Without an inserted message, the login succeeds.
	if err := newRawSSH(w.connect("192.0.2.1")).login(); err != nil {
		t.Error(err)
	}
}

// Only the configured login methods are offered and accepted.
func TestMethods(t *testing.T) {
	w := newTestServer(t, nil)
	s := newRawSSH(w.connect("192.0.2.1"))
	if err := rawKeys(s); err != nil {
		t.Fatal(err)
	}
	if err := s.write(message(msgServiceRequest, "ssh-userauth")); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"none", "gssapi-with-mic", "hostbased", "keyboard-interactive"} {
		if err := s.write(message(msgUserauth, "alice", "ssh-connection", method, "", "")); err != nil {
			t.Fatal(err)
		}
		b, err := s.wait(msgUserauthFailure)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.BigEndian.Uint32(b[1:])
		if methods := strings.Split(string(b[5:5+n]), ","); !slices.Equal(methods, []string{"password"}) {
			t.Errorf("after %s there is %q", method, methods)
		}
	}
}

// No write is so long that its length could be misinterpreted (CVE-2026-39834), no matter how
// much is requested at once.
func TestWriteSize(t *testing.T) {
	d := newDirectServer(t, nil)
	c := d.connect()
	client, server := newWires("192.0.2.1")
	longest := 0
	c.work.Go(func() {
		_ = newSession(c.ctx, &c.userConn, measuredWriter{server, &longest}).serve()
		server.Close()
	})
	p := &sftpPeer{t: t, rw: client}
	p.begin()
	h := p.open("file", openAnew|wire.OpenRead)
	p.write(h, 0, testBytes(maxData))
	var b []byte
	for range 200 {
		b = wire.AppendRead(b, p.n(), h, 0, 1<<31)
	}
	go func() { _, _ = client.Write(b) }()
	for range 200 {
		p.reply()
	}
	p.close(h)
	p.hangUp(c)
	if longest > bigBuffer || longest < maxData {
		t.Errorf("%d bytes in one write", longest)
	}
}

type measuredWriter struct {
	io.ReadWriter
	longest *int
}

func (m measuredWriter) Write(p []byte) (int, error) {
	*m.longest = max(*m.longest, len(p))
	return m.ReadWriter.Write(p)
}

// A user's name is plain text wherever it is used.
func TestStrangeUsers(t *testing.T) {
	w := newTestServer(t, nil)
	for i, user := range []string{"", "..", "../../etc", "a\x00b", "%u", strings.Repeat("x", 10_000), "\xff"} {
		config := w.clientConfig()
		config.User = user
		c, err := w.dial(w.connect(fmt.Sprintf("198.51.100.%d", i)), config)
		if err != nil {
			t.Errorf("%.20q: %v", user, err)
			continue
		}
		p := w.sftp(c)
		if got := p.name(wire.AppendRealpath(nil, p.n(), ".")); got != "/" {
			t.Errorf("%.20q begins in %q", user, got)
		}
		p.want(wire.NoSuchFile, wire.AppendStat(nil, p.n(), "etc/passwd"))
		c.Close()
	}
}

// allNetworks exempts all sources, for tests that would cause penalties.
var allNetworks = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
