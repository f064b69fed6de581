package sftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// drainRequests receives the requests that block x/crypto's reader of a connection, so that
// nothing of a stuck connection outlives its test. There is no other way to do this, and it is
// only for tests.
func drainRequests(t testing.TB, sc *ssh.ServerConn) {
	transport := reflect.ValueOf(sc.Conn).Elem().FieldByName("transport")
	if !transport.IsValid() {
		t.Fatal("x/crypto keeps its transport elsewhere")
	}
	for transport.Kind() == reflect.Interface || transport.Kind() == reflect.Pointer {
		transport = transport.Elem()
	}
	incoming := transport.FieldByName("incoming")
	if !incoming.IsValid() || incoming.Type() != reflect.TypeFor[chan []byte]() {
		t.Fatal("x/crypto keeps its packets elsewhere")
	}
	for range *(*chan []byte)(unsafe.Pointer(incoming.UnsafeAddr())) {
	}
}

// A peer that breaks the protocol and then sends more leaves x/crypto with a reader goroutine that
// cannot be stopped. The server nevertheless drops the connection, and soon refuses the peer.
func TestBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	w := newTestServer(t, nil)
	n, stuck := 0, 0
	for ; n < 10; n++ {
		s := newRawSSH(w.connect("192.0.2.1"))
		if s.login() != nil {
			break // the peer is refused
		}
		p := s.session(t)
		h := p.open("file", openAnew)
		p.write(h, 0, "x")
		if err := s.writeMany(1000, message(msgChannelConfirm, uint32(99), uint32(0), uint32(1<<20), uint32(1<<15))); err == nil {
			_, err = s.wait(msgUserauthOK) // this message never arrives
			if err == nil {
				t.Fatal("the connection is still open")
			}
		}
		// Whether x/crypto's reader gets stuck depends on how far it had read ahead.
		if e := w.last(n + 1); errors.Is(e.Err, errBroken) {
			stuck++
		} else if e.Err == nil || !strings.Contains(e.Err.Error(), "invalid channel 99") {
			t.Errorf("it ended by %v", e.Err)
		}
	}
	if n < 1 || n > 3 {
		t.Errorf("%d connections before the peer was kept out", n)
	}
	w.conns.Wait() // Disconnected is called while the connection still counts
	if c := w.server.Counters(); c.Stuck != int64(stuck) || c.Conns != 0 || c.Handles != 0 || c.Sessions != 0 || c.Panics != 0 {
		t.Errorf("%+v", c)
	}
	w.login("198.51.100.1").Close() // other peers are not refused
}

// A truncated request is refused, and not executed partially.
func TestCutRequests(t *testing.T) {
	p := newTestSession(t, nil)
	p.put("file", "content")
	p.put("other", "more")
	h := p.open("file", wire.OpenRead|wire.OpenWrite)
	var size wire.Attrs
	size.SetSize(0)
	for _, whole := range [][]byte{
		wire.AppendRemove(nil, p.n(), "file"), wire.AppendRename(nil, p.n(), "file", "moved"), wire.AppendPosixRename(nil, p.n(), "file", "other"),
		wire.AppendHardlink(nil, p.n(), "file", "second"), wire.AppendSymlink(nil, p.n(), "file", "second"), wire.AppendMkdir(nil, p.n(), "dir", wire.Attrs{}),
		wire.AppendSetstat(nil, p.n(), "file", size), wire.AppendFsetstat(nil, p.n(), h, size), wire.AppendWrite(nil, p.n(), h, 0, []byte("CONTENT")),
		wire.AppendOpen(nil, p.n(), "file", wire.OpenWrite|wire.OpenTruncate, wire.Attrs{}),
	} {
		// Each request is cut after its number, in the middle and before its last byte.
		for _, n := range []int{9, (9 + len(whole)) / 2, len(whole) - 1} {
			cut := bytes.Clone(whole[:n])
			binary.BigEndian.PutUint32(cut, uint32(n-4))
			p.id = wireID(whole)
			p.want(wire.BadMessage, cut)
		}
	}
	p.close(h)
	p.wantFile("file", "content")
	p.wantFile("other", "more")
	for _, name := range []string{"moved", "second", "dir", "d", "s"} {
		p.wantNone(name)
	}
}
