package sftp

import (
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// These peers follow the syntax of SSH, but violate its rules. At most they lose their own
// connection, and all of its resources are released.

// A hostileAct is executed after the login. p is an SFTP session with the given channel number.
type hostileAct func(s *rawSSH, p *sftpPeer, theirs uint32) error

var hostileActs = map[string]struct {
	do    hostileAct
	lives bool // the session remains usable
}{
	"global requests": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		if err := s.writeMany(race.Fewer(20_000, 10), message(80, "keepalive@openssh.com", false)); err != nil {
			return err
		}
		for range race.Fewer(2000, 10) { // the server answers all of these requests
			if err := s.write(message(80, "tcpip-forward", true, "0.0.0.0", uint32(22))); err != nil {
				return err
			}
			if _, err := s.wait(msgGlobalFailure); err != nil {
				return err
			}
		}
		return nil
	}, true},
	"long global requests": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		return s.writeMany(race.Fewer(500, 10), message(80, strings.Repeat("x", 200<<10), false))
	}, true},
	"channel requests": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		for range race.Fewer(5000, 10) {
			for _, r := range [][]byte{
				message(msgChannelRequest, theirs, "env", false, "LANG", strings.Repeat("x", 1000)),
				message(msgChannelRequest, theirs, "signal", false, "KILL"),
				message(msgChannelRequest, theirs, "exit-status", false, uint32(1)),
			} {
				if err := s.write(r); err != nil {
					return err
				}
			}
		}
		return nil
	}, true},
	"sessions that are refused": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		refused, most := 0, race.Fewer(5000, 10)
		for i := range most {
			if err := s.write(message(msgChannelOpen, "session", uint32(i+1), uint32(1<<20), uint32(1<<15))); err != nil {
				return err
			}
			b, err := s.read()
			if err != nil {
				return err
			}
			if b[0] == msgOpenFailure {
				refused++
			}
		}
		if want := most - (DefaultMaxChannels - 1); refused != want {
			return &unexpectedMessage{refused, want}
		}
		return nil
	}, true},
	"window of nothing": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(race.Fewer(50_000, 10), message(msgWindowAdjust, theirs, uint32(0)))
	}, true},
	"window byte by byte": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(race.Fewer(50_000, 10), message(msgWindowAdjust, theirs, uint32(1)))
	}, true},
	"window beyond its type": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(5, message(msgWindowAdjust, theirs, uint32(1<<31)))
	}, false},
	"more than the window": {func(s *rawSSH, p *sftpPeer, theirs uint32) error {
		// An incomplete request: the server waits for the rest of it and reads no more.
		packet := message(msgChannelData, theirs, append([]byte{0, 4, 0, 0, 3}, make([]byte, 30<<10)...))
		return s.writeMany(200, packet)
	}, false},
	"packets beyond the longest": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.write(message(msgChannelData, theirs, make([]byte, 33<<10)))
	}, false},
	"data without any": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(race.Fewer(50_000, 10), message(msgChannelData, theirs, ""))
	}, true},
	"data of another kind": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(race.Fewer(50_000, 10), message(msgExtendedData, theirs, uint32(7), ""))
	}, true},
	"channels that nobody opened": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(10, message(msgChannelData, theirs+99, "x"))
	}, false},
	"confirmations of nothing": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(10, message(msgChannelConfirm, theirs, uint32(0), uint32(1<<20), uint32(1<<15)))
	}, false},
	"ends, and data behind them": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		for range 100 {
			if err := s.write(message(msgChannelEOF, theirs)); err != nil {
				return err
			}
			if err := s.write(message(msgChannelData, theirs, wire.AppendInit(nil, 3))); err != nil {
				return err
			}
		}
		return nil
	}, false},
	"closed twice": {func(s *rawSSH, _ *sftpPeer, theirs uint32) error {
		return s.writeMany(2, message(msgChannelClose, theirs))
	}, false},
	"key exchanges": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		for range race.Fewer(300, 10) {
			if err := s.rekey(); err != nil {
				return err
			}
		}
		return nil
	}, true},
	"key exchanges begun": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		return s.writeMany(5, s.kexInit())
	}, false},
	"a key exchange for compression": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		return s.write(s.kexInitCompressed("zlib@openssh.com", "zlib"))
	}, false},
	"a login again": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		return s.writeMany(10, message(msgUserauth, "root", "ssh-connection", "none"))
	}, false},
	"pings": {func(s *rawSSH, _ *sftpPeer, _ uint32) error { // the client sends pings without waiting for answers
		return s.writeMany(1000, message(msgPing, make([]byte, 1000)))
	}, true},
	"ignored messages": {func(s *rawSSH, _ *sftpPeer, _ uint32) error {
		return s.writeMany(race.Fewer(1000, 10), message(msgIgnore, make([]byte, 30<<10)))
	}, true},
}

type unexpectedMessage struct{ got, want int }

func (e *unexpectedMessage) Error() string {
	return "sessions were refused not as often as they should have been"
}

func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, test := range hostileActs {
		t.Run(name, func(t *testing.T) {
			w := newTestServer(t, nil)
			quiet := w.sftp(w.login("192.0.2.2"))
			quiet.put("quiet", name)
			s := newRawSSH(w.connect("192.0.2.1"))
			if err := s.login(); err != nil {
				t.Fatal(err)
			}
			p := s.session(t)
			p.put("file", "x")
			before, goroutines := heap(), runtime.NumGoroutine()
			err := test.do(s, p, p.rw.(*rawChannel).theirs)
			if test.lives && err != nil {
				t.Fatal(err, w.last(1).Err)
			}
			if test.lives {
				p.wantFile("file", "x")
			}
			if grown := heap() - before; grown > 8<<20 {
				t.Errorf("it takes %d bytes", grown)
			}
			if n := runtime.NumGoroutine() - goroutines; n > 3*DefaultMaxChannels {
				t.Errorf("%d more goroutines", n)
			}
			quiet.wantFile("quiet", name)
			if !test.lives {
				// Receive what the server still sends, as long as the connection exists.
				go func() { _, _ = io.Copy(io.Discard, s.nc) }()
			}
			s.nc.Close()
			w.last(1)
			// Disconnected is called shortly before everything is released.
			c := w.server.Counters()
			for deadline := time.Now().Add(patience); c.Conns != 1 && time.Now().Before(deadline); c = w.server.Counters() {
				time.Sleep(time.Millisecond)
			}
			if c.Panics != 0 || c.Conns != 1 || c.Sessions != 1 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// kexInitCompressed requests one of the given compression methods, and no other.
func (s *rawSSH) kexInitCompressed(names ...string) []byte {
	var m rawKexInit
	if err := ssh.Unmarshal(s.kexInit(), &m); err != nil {
		panic(err)
	}
	m.CompressionIn, m.CompressionOut = names, names
	return ssh.Marshal(&m)
}

// There is no compression, which costs memory and reveals lengths. A client that accepts nothing
// else cannot log in.
func TestCompression(t *testing.T) {
	w := newTestServer(t, nil)
	s := newRawSSH(w.connect("192.0.2.1"))
	if _, err := io.WriteString(s.nc, rawVersion+"\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := s.write(s.kexInitCompressed("zlib@openssh.com", "zlib")); err != nil {
		t.Fatal(err)
	}
	b, err := s.wait(20)
	if err != nil {
		t.Fatal(err)
	}
	var offer rawKexInit
	if err := ssh.Unmarshal(b, &offer); err != nil {
		t.Fatal(err)
	}
	if none := []string{"none"}; !slices.Equal(offer.CompressionIn, none) || !slices.Equal(offer.CompressionOut, none) {
		t.Errorf("it offers %q and %q", offer.CompressionIn, offer.CompressionOut)
	}
	if _, err := s.wait(31); err == nil {
		t.Error("a key exchange continues")
	}
	if e := w.last(1); e.Err == nil || !strings.Contains(e.Err.Error(), "compression") {
		t.Errorf("it ended by %v", e.Err)
	}
}

// A client that requests tiny packets gets them.
func TestSmallPackets(t *testing.T) {
	w := newTestServer(t, nil)
	s := newRawSSH(w.connect("192.0.2.1"))
	if err := s.login(); err != nil {
		t.Fatal(err)
	}
	for i, most := range []uint32{9, 10, 100, 1 << 20} {
		if err := s.write(message(msgChannelOpen, "session", uint32(i), uint32(1<<20), most)); err != nil {
			t.Fatal(err)
		}
		b, err := s.wait(msgChannelConfirm)
		if err != nil {
			t.Fatal(err)
		}
		theirs := binary.BigEndian.Uint32(b[5:])
		if err := s.write(message(msgChannelRequest, theirs, "subsystem", true, "sftp")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.wait(msgChannelSuccess); err != nil {
			t.Fatal(err)
		}
		p := &sftpPeer{t: t, rw: &rawChannel{s: s, mine: uint32(i), theirs: theirs}}
		p.begin()
		data := testBytes(1000)
		p.put("file", data)
		p.wantFile("file", data)
	}
	// RFC 4253 requires room for 32 KiB. For sizes below one message, or unreasonably large ones,
	// no channel is opened.
	for _, most := range []uint32{0, 8, 1<<31 + 1} {
		s := newRawSSH(w.connect("192.0.2.1"))
		if err := s.login(); err != nil {
			t.Fatal(err)
		}
		if err := s.write(message(msgChannelOpen, "session", uint32(0), uint32(1<<20), most)); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := s.read()
			if err == nil && b[0] == msgChannelConfirm {
				t.Errorf("a channel with packets of %d bytes", most)
			}
			if err != nil || b[0] == msgOpenFailure || b[0] == msgChannelConfirm {
				break
			}
		}
	}
}
