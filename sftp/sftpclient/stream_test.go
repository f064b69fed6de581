package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// connectStream makes a session on its own connection, as a program that logs in does.
func (p *fakeServer) connectStream(context.Context) (io.ReadWriteCloser, error) {
	return p.connect().openOne(3)
}

// Each further session needs its own stream. If a stream cannot be opened, or no server answers on
// it, the client uses fewer sessions. It does not try again repeatedly, because each attempt costs
// a login.
func TestStreams(t *testing.T) {
	const size, known = 96 << 20, 100 * time.Millisecond
	for _, test := range []struct {
		name     string
		trip     time.Duration // round trip in Config.RoundTrip
		near     bool
		further  func(p *fakeServer, n int64) (io.ReadWriteCloser, error)
		sessions int
		tries    int64
	}{
		{name: "one alone", sessions: 1},
		{"near", 0, true, func(p *fakeServer, _ int64) (io.ReadWriteCloser, error) { return p.connectStream(context.Background()) }, 1, 0},
		{"far, which shows later", 0, false, func(p *fakeServer, _ int64) (io.ReadWriteCloser, error) { return p.connectStream(context.Background()) }, 8, 7},
		{"as many as help", known, false, func(p *fakeServer, _ int64) (io.ReadWriteCloser, error) { return p.connectStream(context.Background()) }, 8, 7},
		{"none can be made", known, false, func(*fakeServer, int64) (io.ReadWriteCloser, error) { return nil, errors.New("no program") }, 1, 7},
		{"two, and others that end at once", known, false, func(p *fakeServer, n int64) (io.ReadWriteCloser, error) {
			s, err := p.connectStream(context.Background())
			if n > 2 {
				time.Sleep(p.link.roundTrip())
				_ = s.Close()
			}
			return s, err
		}, 3, 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeServer()
				p.link.latency = 50 * time.Millisecond
				if test.near {
					p.link.latency = time.Millisecond
				}
				config := Config{First: "void", Expect: FirstSize, RoundTrip: test.trip}
				p.tree = endlessTree{p.tree, size, &atomic.Int64{}}
				first, err := p.connectStream(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var tries atomic.Int64
				if test.further != nil {
					config.ConnectStream = func(context.Context) (io.ReadWriteCloser, error) { return test.further(p, tries.Add(1)) }
				}
				c, err := NewStream(t.Context(), first, config)
				if err != nil {
					t.Fatal(err)
				}
				f, err := c.Open(t.Context(), "void")
				if err != nil {
					t.Fatal(err)
				}
				if n, err := f.FetchTo(t.Context(), nowhere{}, 0); n != size || err != nil {
					t.Errorf("FetchTo = %d, %v", n, err)
				}
				if got := c.measure(); got.Sessions != test.sessions || tries.Load() > test.tries {
					t.Errorf("%d sessions, and %d streams were begun; want %d, and at most %d", got.Sessions, tries.Load(), test.sessions, test.tries)
				}
				_ = f.Close()
				p.end(t, c)
			})
		})
	}
}

// If a stream is lost, another stream replaces it, and a copy continues over that. Without
// ConnectStream the copy fails.
func TestStreamLost(t *testing.T) {
	for _, replaced := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.link.latency = time.Millisecond
			p.put(t, "f", pattern(4<<20, 1))
			first, err := p.connectStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			config := Config{Conns: 1}
			if replaced {
				config.ConnectStream = p.connectStream
			}
			c, err := NewStream(t.Context(), first, config)
			if err != nil {
				t.Fatal(err)
			}
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type == wire.TypeRead && s.n == 1 && q.Offset > 0 {
					s.kill()
				}
				return nil, false
			}
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			var b growingFile
			_, err = f.FetchTo(t.Context(), &b, 0)
			if replaced && (err != nil || string(b.b) != string(pattern(4<<20, 1))) || !replaced && !errors.Is(err, ErrConnectionLost) {
				t.Errorf("replaced %v: %d bytes, %v", replaced, len(b.b), err)
			}
			_ = f.Close()
			_ = c.Close()
			p.wait.Wait()
		})
	}
}

// A stream may be lost while the source of an upload is still reading the data for it. Another
// stream may exist before the source returns this data. Then the copy continues on that stream.
func TestStreamLostUnderASlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.link.latency = time.Millisecond
		first, err := p.connectStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewStream(t.Context(), first, Config{Conns: 1, ConnectStream: p.connectStream})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenFile(t.Context(), "f", os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		data := pattern(4<<20, 1)
		r := &slowSource{r: bytes.NewReader(data), slow: 2, meanwhile: p.endFirst}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if n, err := f.FillFrom(ctx, r, 0, int64(len(data))); n != int64(len(data)) || err != nil {
			t.Errorf("FillFrom = %d, %v", n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "f"), data) || p.opened != 2 {
			t.Errorf("the file is not the same, or %d sessions were begun, and not 2", p.opened)
		}
		p.end(t, c)
	})
}

// A slowSource takes two seconds for one of its reads, and something happens in the middle of it.
type slowSource struct {
	r         io.ReaderAt
	reads     int
	slow      int // the number of the slow read
	meanwhile func()
}

func (s *slowSource) ReadAt(p []byte, off int64) (int, error) {
	if s.reads++; s.reads == s.slow {
		time.Sleep(time.Second)
		s.meanwhile()
		time.Sleep(time.Second)
	}
	return s.r.ReadAt(p, off)
}

// A session that has failed may not have ended yet, because its goroutine is still writing. A
// request about a file that is open in this session moves to the next session.
func TestStreamFailsBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.put(t, "f", []byte("content"))
		s, err := p.connectStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first := &slowWriter{ReadWriteCloser: s}
		c, err := NewStream(t.Context(), first, Config{ConnectStream: p.connectStream})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenFile(t.Context(), "f", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		first.takes.Store(int64(2 * time.Second))
		other := make(chan error, 1)
		go func() {
			_, err := c.Stat(t.Context(), "f")
			other <- err
		}()
		time.Sleep(time.Second)
		p.endFirst()
		synctest.Wait()
		if fi, err := f.Stat(); err != nil || fi.Size() != 7 {
			t.Errorf("the file is %v, %v", fi, err)
		}
		if err := <-other; err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		p.end(t, c)
	})
}

// A slowWriter is a stream with slow writes.
type slowWriter struct {
	io.ReadWriteCloser
	takes atomic.Int64
}

func (s *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.ReadWriteCloser.Write(p)
}

// If a shell prints text before the protocol begins, the error quotes this text, even if nothing
// follows it. It does not report the text as the length of a packet.
func TestTextBeforeTheProtocol(t *testing.T) {
	for text, want := range map[string]string{
		"This account is closed.\n":              `"This account is closed."`,
		"hi\n":                                   `"hi"`,
		"Grüße von \x1b[1mhost\n":                `"Grüße von"`,
		strings.Repeat("x", 1<<20):               strings.Repeat("x", 80),
		"\xff\xff\xff\xff is no text of a shell": "",
	} {
		for _, more := range [][]byte{wire.AppendVersion(nil, wire.ProtocolVersion, nil), nil} {
			synctest.Test(t, func(t *testing.T) {
				here, there := newNetStreams(&netLink{})
				go func() {
					_, _ = there.Write(append([]byte(text), more...))
					_ = there.Close()
				}()
				_, err := NewStream(t.Context(), here, Config{})
				if !errors.Is(err, ErrProtocol) || strings.Contains(err.Error(), "startup file") != (want != "") || !strings.Contains(err.Error(), want) {
					t.Errorf("after %.30q: %v", text, err)
				}
				_ = there.Close()
			})
		}
	}
}

// If the context has no deadline, the server must answer in the first session within
// Config.Timeout; otherwise it must answer until the deadline. In both cases the stream is closed.
func TestStreamTimeout(t *testing.T) {
	for _, limit := range []time.Duration{0, 5 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			here, _ := newNetStreams(&netLink{})
			ctx, want := t.Context(), DefaultTimeout
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
				want = limit
			}
			begin := time.Now()
			_, err := NewStream(ctx, here, Config{})
			if err == nil || time.Since(begin) != want {
				t.Errorf("with a limit of %v: %v after %v", limit, err, time.Since(begin))
			}
			if n, err := here.Read(make([]byte, 1)); err == nil {
				t.Errorf("the stream is open: %d", n)
			}
		})
	}
}

// A login may take long. But once the server has answered, it has only the usual time for the rest
// of the handshake: it may hang because the handshake has asked it to open a FIFO.
func TestStreamHangsBehindTheLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) { return nil, q.Type == wire.TypeOpen }
		s, err := p.connectStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		if _, err := NewStream(ctx, s, Config{First: "fifo"}); !errors.Is(err, ErrStalled) || time.Since(begin) != DefaultTimeout {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		p.wait.Wait()
	})
}

// Over a stream, the client cannot ask the server whether it is alive. It still waits for a slow
// request, but not forever.
func TestStreamLongRequest(t *testing.T) {
	for _, takes := range []time.Duration{10 * time.Minute, 0} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.put(t, "f", []byte("x"))
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type != wire.TypeExtended || q.Extension != wire.ExtCheckFileName {
					return nil, false
				}
				if time.Sleep(takes); takes == 0 {
					return nil, true
				}
				return s.answer(q), true
			}
			s, err := p.connectStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := NewStream(t.Context(), s, Config{})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			_, _, err = c.Hash(t.Context(), "f", 0, 0, "sha256")
			if took := time.Since(begin); takes > 0 && (err != nil || took != takes) || takes == 0 && (!errors.Is(err, ErrStalled) || took > 4*time.Hour) {
				t.Errorf("an answer after %v: %v, after %v", takes, err, took)
			}
			_ = c.Close()
			p.wait.Wait()
		})
	}
}
