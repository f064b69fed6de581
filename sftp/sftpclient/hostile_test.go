package sftpclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

func withCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// rawPacket returns a packet of a type with any content.
func rawPacket(t wire.Type, id uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(5+len(payload)))
	b = append(b, byte(t))
	return append(binary.BigEndian.AppendUint32(b, id), payload...)
}

// For any answer of a server, the client reports what is wrong, in bounded time and memory, and
// does not panic.
func TestHostileServers(t *testing.T) {
	reply := func(of wire.Type, f func(q wire.Request) []byte) func(*fakeSession, wire.Request, []byte) ([]byte, bool) {
		return func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != of {
				return nil, false
			}
			return f(q), true
		}
	}
	stat := func(ctx context.Context, c *Client) error { _, err := c.Stat(ctx, "f"); return err }
	fetch := func(ctx context.Context, c *Client) error {
		f, err := c.Open(ctx, "f")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.FetchTo(ctx, nowhere{}, 0)
		return err
	}
	readAt := func(ctx context.Context, c *Client) error {
		f, err := c.Open(ctx, "f")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.ReadAt(make([]byte, 100_000), 0)
		return err
	}
	put := func(ctx context.Context, c *Client) error {
		return uploadAll(ctx, c, "g", make([]byte, 100_000))
	}
	list := func(ctx context.Context, c *Client) error { _, err := c.ReadDir(ctx, "."); return err }
	name := func(names ...string) func(q wire.Request) []byte {
		return func(q wire.Request) []byte {
			b := wire.AppendNames(nil, q.ID)
			for _, n := range names {
				b = wire.AppendEntry(b, 0, n, nil, wire.Attrs{})
			}
			return b
		}
	}
	tests := []struct {
		name string
		hook func(*fakeSession, wire.Request, []byte) ([]byte, bool)
		do   func(context.Context, *Client) error
		want error // nil means any error
		text string
	}{
		{"unknown id", reply(wire.TypeStat, func(q wire.Request) []byte { return wire.AppendAttrs(nil, q.ID+77, wire.Attrs{}) }), stat, ErrProtocol, "nothing was asked"},
		{"id of nobody's", reply(wire.TypeStat, func(q wire.Request) []byte { return wire.AppendAttrs(nil, 1<<31, wire.Attrs{}) }), stat, ErrProtocol, ""},
		{"answer twice", reply(wire.TypeStat, func(q wire.Request) []byte {
			b := wire.AppendAttrs(nil, q.ID, wire.Attrs{})
			return wire.AppendAttrs(b, q.ID, wire.Attrs{})
		}), func(ctx context.Context, c *Client) error {
			_, _ = c.Stat(ctx, "f")
			time.Sleep(time.Second)
			return c.mux.State().LastLoss
		}, ErrProtocol, ""},
		{"wrong type", reply(wire.TypeStat, func(q wire.Request) []byte { return wire.AppendHandle(nil, q.ID, "h") }), stat, ErrProtocol, "HANDLE in place of ATTRS"},
		{"success for a value", reply(wire.TypeStat, func(q wire.Request) []byte { return wire.AppendStatus(nil, q.ID, wire.OK, "") }), stat, ErrProtocol, ""},
		{"a request", reply(wire.TypeStat, func(q wire.Request) []byte { return wire.AppendStat(nil, q.ID, "x") }), stat, ErrProtocol, "not a reply"},
		{"a version", reply(wire.TypeStat, func(q wire.Request) []byte { return wire.AppendVersion(nil, 3, nil) }), stat, ErrProtocol, ""},
		{"no type at all", reply(wire.TypeStat, func(q wire.Request) []byte { return rawPacket(99, q.ID) }), stat, ErrProtocol, ""},
		{"too short", reply(wire.TypeStat, func(wire.Request) []byte { return []byte{0, 0, 0, 1, 101, 0, 0, 0, 0} }), stat, ErrProtocol, "length"},
		{"too long", reply(wire.TypeStat, func(wire.Request) []byte { return []byte{0xff, 0xff, 0xff, 0xff, 101, 0, 0, 0, 0} }), stat, ErrProtocol, "length"},
		{"cut attributes", reply(wire.TypeStat, func(q wire.Request) []byte { return rawPacket(wire.TypeAttrs, q.ID, 0, 0, 0, 1) }), stat, ErrProtocol, "cut off"},
		{"long handle", reply(wire.TypeOpen, func(q wire.Request) []byte { return wire.AppendHandle(nil, q.ID, strings.Repeat("h", 257)) }), fetch, ErrProtocol, "handle"},
		{"end of the session", func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type == wire.TypeStat {
				time.AfterFunc(time.Second, s.p.endFirst)
			}
			return []byte{0, 0}, q.Type == wire.TypeStat
		}, stat, ErrConnectionLost, ""},

		{"more than asked", reply(wire.TypeRead, func(q wire.Request) []byte { return wire.AppendData(nil, q.ID, make([]byte, q.Length+1)) }), fetch, ErrProtocol, "were asked for"},
		{"more than asked, to the caller", reply(wire.TypeRead, func(q wire.Request) []byte { return wire.AppendData(nil, q.ID, make([]byte, q.Length+1)) }), readAt, ErrProtocol, "were asked for"},
		{"data longer than the packet", reply(wire.TypeRead, func(q wire.Request) []byte { return rawPacket(wire.TypeData, q.ID, 0, 1, 0, 0, 'x') }), fetch, ErrProtocol, "cut off"},
		{"data for a write", reply(wire.TypeWrite, func(q wire.Request) []byte { return wire.AppendData(nil, q.ID, []byte("x")) }), put, ErrProtocol, "not a READ"},
		{"data for a stat", reply(wire.TypeStat, func(q wire.Request) []byte { return wire.AppendData(nil, q.ID, []byte("x")) }), stat, ErrProtocol, "not a READ"},
		{"success for a read", reply(wire.TypeRead, func(q wire.Request) []byte { return wire.AppendStatus(nil, q.ID, wire.OK, "") }), fetch, ErrProtocol, ""},
		{"attributes for a read", reply(wire.TypeRead, func(q wire.Request) []byte { return wire.AppendAttrs(nil, q.ID, wire.Attrs{}) }), fetch, ErrProtocol, ""},
		{"empty data", reply(wire.TypeRead, func(q wire.Request) []byte { return wire.AppendData(nil, q.ID, nil) }), fetch, nil, "no data"},
		{"end in the middle of a write", reply(wire.TypeWrite, func(q wire.Request) []byte { return wire.AppendStatus(nil, q.ID, wire.EOF, "") }), put, io.EOF, ""},
		{"unknown status", reply(wire.TypeRead, func(q wire.Request) []byte { return wire.AppendStatus(nil, q.ID, 4711, "\x1b[2J") }), fetch, nil, "status 4711"},

		{"slash in a name", reply(wire.TypeReaddir, name("a", "../../etc/passwd")), list, ErrProtocol, "passwd"},
		{"NUL in a name", reply(wire.TypeReaddir, name("a\x00b")), list, ErrProtocol, ""},
		{"empty name", reply(wire.TypeReaddir, name("")), list, ErrProtocol, ""},
		{"no names for ever", reply(wire.TypeReaddir, name()), list, ErrProtocol, "without a name"},
		{"no names but dots for ever", reply(wire.TypeReaddir, name(".", "..")), list, ErrProtocol, "without a name"},
		{"more names than bytes", reply(wire.TypeReaddir, func(q wire.Request) []byte { return rawPacket(wire.TypeName, q.ID, 0xff, 0xff, 0xff, 0xff) }), list, ErrProtocol, "cannot be in"},
		{"names for ever", reply(wire.TypeReaddir, name(strings.Repeat("n", 200_000))), list, nil, "more than"},
		{"names without end in a store", reply(wire.TypeReaddir, name(strings.Split(strings.Repeat("n,", 9000), ",")[:9000]...)),
			func(ctx context.Context, c *Client) error { _, err := c.Store("").ReadDir(ctx, "."); return err }, nil, "more than 65536"},
		{"two names for a link", reply(wire.TypeReadlink, name("a", "b")), func(ctx context.Context, c *Client) error { _, err := c.Readlink(ctx, "f"); return err }, ErrProtocol, "2 names"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeServer()
				p.hook = tt.hook
				p.put(t, "f", pattern(200_000, 1))
				c := p.client(t, Config{Stall: 10 * time.Second})
				err := tt.do(t.Context(), c)
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("error %v, want %v and %q", err, tt.want, tt.text)
				}
				if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
					t.Errorf("the server writes to the terminal: %q", err)
				}
				_ = c.Close()
				p.wait.Wait()
			})
		})
	}
}

// A server that sends byte by byte costs much time, but not much memory.
func TestServerOfSingleBytes(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeRead {
				return nil, false
			}
			q.Length = min(q.Length, 1)
			return s.answer(q), true
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(20_000, 1)
		p.put(t, "f", data)
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("ReadAll = %d bytes, %v", len(got), err)
		}
	})
}

// A session that breaks the protocol is not used again, but its connection is, and the transfer
// continues.
func TestRecoversFromOneLie(t *testing.T) {
	lied := false
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeRead || lied || q.Offset < 100_000 {
				return nil, false
			}
			lied = true
			return wire.AppendData(nil, q.ID+1<<20, []byte("x")), true
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(3<<20, 1)
		p.put(t, "f", data)
		if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
			t.Error(err)
		}
	})
}

// A late second answer to an old request is not mistaken for the answer to a new request, which has
// the same slot in the table.
func TestLateSecondAnswer(t *testing.T) {
	for _, late := range []int{1, 2, 3, 130, 131} {
		var mu sync.Mutex
		var ids []uint32 // of all READs
		withFakeServer(t, Config{Requests: 2, RequestBytes: 4 << 10}, func(p *fakeServer) {
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type != wire.TypeRead {
					return nil, false
				}
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, q.ID)
				if len(ids) != late+1 {
					return nil, false
				}
				lie := wire.AppendData(nil, ids[0], bytes.Repeat([]byte{'x'}, 4<<10))
				return append(lie, s.answer(q)...), true
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			data := pattern(1<<20, 1)
			p.put(t, "f", data)
			if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
				t.Errorf("a second answer %d READs later: %v", late, err)
			}
			if last := c.mux.State().LastLoss; !errors.Is(last, ErrProtocol) {
				t.Errorf("a second answer %d READs later is not noticed: %v", late, last)
			}
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(ids)
			if n := len(slices.Compact(ids)); n != len(ids) {
				t.Errorf("%d READs have %d ids", len(ids), n)
			}
		})
	}
}

// The client ignores bytes after the data of a packet: in later versions, a flag there says whether
// the file ends.
func TestDataWithMore(t *testing.T) {
	for more := range 3 {
		withFakeServer(t, Config{}, func(p *fakeServer) {
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type != wire.TypeRead {
					return nil, false
				}
				b := s.answer(q)
				if b[4] == byte(wire.TypeData) {
					b = append(b, make([]byte, more)...)
					binary.BigEndian.PutUint32(b, uint32(len(b)-4))
				}
				return b, true
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			data := pattern(1<<20, 1)
			p.put(t, "f", data)
			if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
				t.Errorf("%d bytes more: %v", more, err)
			}
			if last := c.mux.State().LastLoss; last != nil {
				t.Errorf("%d bytes more: a session ended: %v", more, last)
			}
		})
	}
}

// An answer does not count if it arrives in another session than the one in which the request was
// sent.
func TestAnswerOnAnotherSession(t *testing.T) {
	var mu sync.Mutex
	var reads []*fakeSession // sessions that received a READ
	lied := false
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link.latency = tripTime / 2
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeRead {
				return nil, false
			}
			mu.Lock()
			if !slices.Contains(reads, s) {
				reads = append(reads, s)
			}
			now := !lied && len(reads) == 2
			lied = lied || now
			mu.Unlock()
			if !now {
				return nil, false
			}
			reads[0].write(wire.AppendData(nil, q.ID, bytes.Repeat([]byte{'x'}, int(q.Length))))
			time.Sleep(10 * tripTime) // so that the answer in the other session arrives first
			return nil, false
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(60<<20, 1)
		p.put(t, "f", data)
		if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
			t.Error(err)
		}
		mu.Lock() // the server may still be answering a repeated READ
		defer mu.Unlock()
		if !lied {
			t.Error("there was never another session to answer on")
		}
	})
}

// If the client requests the same bytes in two sessions, the second answer may have fewer bytes
// than the first. Then it changes nothing.
func TestShortAnswersToRepeatedRead(t *testing.T) {
	const size = 20<<20 + 100_000
	var mu sync.Mutex
	var asked []*fakeSession // the sessions that received a READ of the end of the file, in order
	var first time.Time
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link.latency = 50 * time.Millisecond
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeRead || q.Offset >= size || q.Offset+q.Length < size {
				return nil, false
			}
			mu.Lock()
			n := len(asked)
			if asked = append(asked, s); n == 0 {
				first = time.Now()
			}
			until := first.Add(time.Duration(5+min(n, 2)) * time.Second)
			mu.Unlock()
			time.Sleep(time.Until(until))
			if n < 2 {
				q.Length = []int64{1000, 500}[n]
			}
			return s.answer(q), true
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(size, 1)
		p.put(t, "f", data)
		if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
			t.Error(err)
		}
		if len(asked) < 3 || asked[0] == asked[1] {
			t.Errorf("%d READs of the end, want two of the same bytes on two sessions, and one of the rest", len(asked))
		}
	})
}

func TestGreetings(t *testing.T) {
	tests := []struct {
		name  string
		reply []byte
		text  string
	}{
		{"nothing", nil, ""},
		{"old version", wire.AppendVersion(nil, 2, nil), "version 2"},
		{"status", wire.AppendStatus(nil, 0, wire.Failure, "go away"), "STATUS"},
		{"text", []byte("This account is not available.\n"), "it sends text"},
		{"cut", []byte{0, 0}, ""},
		{"limits for another", append(wire.AppendVersion(nil, 3, wire.AllExtensions.Pairs()), wire.AppendLimitsReply(nil, 9, wire.Limits{})...), "id 9"},
		{"no limits", append(wire.AppendVersion(nil, 3, wire.AllExtensions.Pairs()), wire.AppendHandle(nil, 1, "x")...), "HANDLE"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type == wire.TypeInit {
					_ = s.write(tt.reply)
					s.stream.out.end(false)
					s.kill2()
				}
				return nil, true
			}
			c, err := p.dial(Config{})
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.text)
			}
			if err == nil {
				_ = c.Close()
			}
			p.wait.Wait()
		})
	}
}

// kill2 ends the direction in which the client sends.
func (s *fakeSession) kill2() { s.stream.in.end(true) }

// FuzzReplies gives a client arbitrary bytes as the answer of a server: to its handshake, or to
// all later requests.
func FuzzReplies(f *testing.F) {
	hello := wire.AppendVersion(nil, 3, wire.AllExtensions.Pairs())
	hello = wire.AppendLimitsReply(hello, 1, wire.Limits{Packet: 256 << 10, Read: 255 << 10, Write: 255 << 10})
	// The first two requests are a STAT and an OPEN, and have these ids.
	const tableBits = 13 // number of low bits of an id that are the index in the client's table
	const stat, open = 1 << tableBits, 1<<tableBits + 1
	opened := wire.AppendHandle(wire.AppendAttrs(nil, stat, wire.Attrs{Flags: wire.AttrSize, Size: 4}), open, "h")
	f.Add(false, []byte{})
	f.Add(false, opened)
	for id := range uint32(4) {
		f.Add(false, wire.AppendData(bytes.Clone(opened), id%2+(2+id/2)<<tableBits, []byte("data")))
		f.Add(false, wire.AppendStatus(bytes.Clone(opened), id%2+(2+id/2)<<tableBits, wire.EOF, ""))
	}
	f.Add(false, wire.AppendData(nil, stat, []byte("data")))
	f.Add(true, []byte{0, 0, 0, 5, 2, 0, 0, 0, 3})
	f.Add(true, hello)
	f.Fuzz(func(t *testing.T, early bool, b []byte) {
		greeting, rest := hello, b
		if early {
			greeting, rest = b, nil
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			c, err := newClient(ctx, scriptedServer{greeting, rest}, true, Config{Stall: time.Minute}, nil)
			if err != nil {
				return
			}
			defer c.Close()
			if f, err := c.Open(ctx, "f"); err == nil {
				_, _ = f.FetchTo(ctx, nowhere{}, 0)
				_, _ = io.CopyN(io.Discard, f, 100)
				_ = f.Close()
			}
			_, _ = c.ReadDir(ctx, "d")
			_, _ = c.Store("").Create(ctx, "x", store.Create{})
			_, _ = c.Space(ctx, "x")
			_, _, _ = c.OwnerNames(ctx, []uint32{1}, []uint32{2})
			_, _, _ = c.Hash(ctx, "x", 0, 0, "md5")
		})
	})
}

// A scriptedServer is a connection whose streams send fixed bytes: the rest follows after the
// first request.
type scriptedServer struct{ greeting, rest []byte }

func (s scriptedServer) Open(context.Context, bool) (io.ReadWriteCloser, error) {
	here, there := newNetStreams(&netLink{})
	go func() {
		b := make([]byte, 1<<10)
		_, _ = there.Read(b)
		_, _ = there.Write(s.greeting)
		_, _ = there.Read(b)
		_, _ = there.Write(s.rest)
		there.out.end(false)
		_, _ = io.Copy(io.Discard, there)
	}()
	return here, nil
}

func (s scriptedServer) Ping() error  { return nil }
func (s scriptedServer) Close() error { return nil }
