package mux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// If a session ends before it has answered a call, another session gets the call, provided that the
// call may be executed twice. No fourth session gets it.
func TestCallAfterLostSession(t *testing.T) {
	for _, test := range []struct {
		deaths int
		again  bool
		want   error
		asked  int
	}{
		{0, false, nil, 1},
		{1, false, ErrConnectionLost, 1},
		{1, true, nil, 2},
		{2, true, nil, 3},
		{3, true, ErrConnectionLost, 3},
	} {
		asked := 0
		s := &server{data: []byte("text")}
		s.on = func(_ int, q *wire.Request) reaction {
			if q.Type != wire.TypeStat {
				return answer
			}
			if asked++; asked <= test.deaths {
				return die
			}
			return answer
		}
		withServer(t, s, func(t *testing.T, m *Mux) {
			var a wire.Attrs
			err := m.Do(t.Context(), &Call{Again: test.again, Take: TakeAttrs(&a), Build: func(b []byte, id uint32) []byte {
				return wire.AppendStat(b, id, "f")
			}})
			if !errors.Is(err, test.want) || err == nil && a.Size != 4 || asked != test.asked {
				t.Errorf("%+v: %v, after %d requests", test, err, asked)
			}
			wantIdle(t, m)
		})
	}
}

// A large file is open in two sessions. One of them ends, and then the other one. The file is
// opened again, is still the same file, and each byte arrives.
func TestFetchOverLostSessions(t *testing.T) {
	data := pattern(4 << 20)
	reads := map[int]int{}
	s := &server{data: data}
	s.on = func(session int, q *wire.Request) reaction {
		if q.Type == wire.TypeRead {
			if reads[session]++; session <= 2 && reads[session] == 10 {
				return die
			}
		}
		return answer
	}
	withServer(t, s, func(t *testing.T, m *Mux) {
		f := openFile(t, m, wire.OpenRead)
		got := make(memoryFile, len(data))
		if n, err := f.Fetch(t.Context(), got, 0); n != int64(len(data)) || err != nil || !bytes.Equal(got, data) {
			t.Errorf("Fetch = %d, %v", n, err)
		}
		if reads[1] != 10 || reads[2] != 10 || reads[3] == 0 {
			t.Errorf("READs by session: %v", reads)
		}
		_ = f.Close(t.Context(), true)
		wantIdle(t, m)
	})
}

// While a session is replaced, another program replaces the file. The two files are not mixed.
func TestFileReplacedMeanwhile(t *testing.T) {
	s := &server{data: pattern(4 << 20)}
	s.on = func(session int, q *wire.Request) reaction {
		if q.Type == wire.TypeRead && q.Offset > 1<<20 && s.mtime == 0 {
			s.mtime = 1
		}
		if q.Type == wire.TypeRead && s.mtime == 1 && session <= 2 {
			return die
		}
		return answer
	}
	withServer(t, s, func(t *testing.T, m *Mux) {
		f := openFile(t, m, wire.OpenRead)
		n, err := f.Fetch(t.Context(), make(memoryFile, 4<<20), 0)
		var why *Failure
		if !errors.As(err, &why) || why.Local || why.Offset != n || !strings.Contains(err.Error(), "f is another file by now") {
			t.Errorf("Fetch = %d, %v", n, err)
		}
		_ = f.Close(t.Context(), true)
		wantIdle(t, m)
	})
}

// A program writes without waiting, and a session ends with some of the data in flight. The bytes
// are kept until the server has confirmed them, so another session sends them again.
func TestWriteBehindLostSession(t *testing.T) {
	data := pattern(3 << 20)
	writes := 0
	s := &server{}
	s.on = func(_ int, q *wire.Request) reaction {
		if q.Type == wire.TypeWrite {
			if writes++; writes == 5 || writes == 20 {
				return die
			}
		}
		return answer
	}
	withServer(t, s, func(t *testing.T, m *Mux) {
		f := openFile(t, m, wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
		f.Own = true
		var b WriteBehind
		b.Begin(f)
		for off := 0; off < len(data); off += 10_000 {
			p := data[off:min(off+10_000, len(data))]
			if n, err := b.Write(p, int64(off)); n != len(p) || err != nil {
				t.Fatalf("Write at %d = %d, %v", off, n, err)
			}
			if held := m.State().Held; held > int64(testConfig.Memory)+sureSegments*int64(len(p)) {
				t.Fatalf("%d bytes are held", held)
			}
		}
		if err := b.Await(t.Context()); err != nil || b.Dirty() {
			t.Errorf("Await: %v", err)
		}
		if !bytes.Equal(s.content(), data) {
			t.Error("the server has other bytes")
		}
		_ = f.Close(t.Context(), true)
		wantIdle(t, m)
	})
}

// The server refuses a WRITE. Later bytes may have arrived, so Finish truncates the file at the
// offset of the refused WRITE.
func TestWriteBehindRefused(t *testing.T) {
	s := &server{}
	s.on = func(_ int, q *wire.Request) reaction {
		if q.Type == wire.TypeWrite && q.Offset == 64<<10 {
			q.Type = wire.TypeExtended // the server refuses this type
		}
		return answer
	}
	withServer(t, s, func(t *testing.T, m *Mux) {
		f := openFile(t, m, wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
		var b WriteBehind
		b.Begin(f)
		data := pattern(256 << 10)
		_, _ = b.Write(data, 0)
		err := b.Await(t.Context())
		var why *Failure
		if !errors.As(err, &why) || why.Local || why.Offset != 64<<10 {
			t.Errorf("Await: %v", err)
		}
		if err := b.Finish(t.Context(), true); err != nil {
			t.Errorf("Finish: %v", err)
		}
		if !bytes.Equal(s.content(), data[:64<<10]) {
			t.Errorf("the file has %d bytes", len(s.content()))
		}
		_ = f.Close(t.Context(), true)
		wantIdle(t, m)
	})
}

// A reader that stops reading uses no more memory than allowed.
func TestReadAheadIsBounded(t *testing.T) {
	data := pattern(8 << 20)
	withServer(t, &server{data: data}, func(t *testing.T, m *Mux) {
		f := openFile(t, m, wire.OpenRead)
		r := f.ReadAhead(0, 4096)
		var got []byte
		for {
			b, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b...)
			r.Took(len(b))
			if len(got)%(1<<20) == 0 {
				time.Sleep(time.Second)
				if held := m.State().Held; held > int64(testConfig.Memory) {
					t.Fatalf("%d bytes are held", held)
				}
			}
		}
		if !bytes.Equal(got, data) {
			t.Error("other bytes came")
		}
		r.Drop()
		_ = f.Close(t.Context(), false)
		wantIdle(t, m)
	})
}

// The client gives up on a silent server after the configured time. Close of the mux ends all
// waiting calls at once.
func TestSilentServer(t *testing.T) {
	stat := func(m *Mux) error {
		var a wire.Attrs
		return m.Do(context.Background(), &Call{Take: TakeAttrs(&a), Build: func(b []byte, id uint32) []byte { return wire.AppendStat(b, id, "f") }})
	}
	silent := func(_ int, q *wire.Request) reaction {
		if q.Type == wire.TypeStat {
			return ignore
		}
		return answer
	}
	withServer(t, &server{on: silent}, func(t *testing.T, m *Mux) {
		began := time.Now()
		if err := stat(m); !errors.Is(err, ErrStalled) || time.Since(began) != testConfig.Stall {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
	withServer(t, &server{on: silent}, func(t *testing.T, m *Mux) {
		done := make(chan error, 1)
		go func() { done <- stat(m) }()
		synctest.Wait()
		if err := m.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("the call: %v", err)
		}
		if err := m.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("Close again: %v", err)
		}
	})
}

// Whichever sessions the server ends, and whenever it does so, a transfer moves the right bytes or
// fails.
func TestSessionsEndAtRandom(t *testing.T) {
	data := pattern(1 << 20)
	whole := 0
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			often := random.IntN(300) + 5
			chance := func(_ int, q *wire.Request) reaction {
				if q.Type != wire.TypeClose && random.IntN(often) == 0 {
					return die
				}
				return answer
			}
			s := &server{data: data}
			withServer(t, s, func(t *testing.T, m *Mux) {
				f := openFile(t, m, wire.OpenRead)
				s.mu.Lock()
				s.on = chance
				s.mu.Unlock()
				got := make(memoryFile, len(data))
				n, err := f.Fetch(t.Context(), got, 0)
				if !bytes.Equal(got[:n], data[:n]) || (err == nil) != (n == int64(len(data))) {
					t.Errorf("Fetch = %d, %v", n, err)
				}
				if err == nil {
					whole++
				}
				s.mu.Lock()
				s.on = nil
				s.mu.Unlock()
				_ = f.Close(t.Context(), true)
				wantIdle(t, m)
			})
			s = &server{}
			withServer(t, s, func(t *testing.T, m *Mux) {
				f := openFile(t, m, wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
				s.mu.Lock()
				s.on = chance
				s.mu.Unlock()
				n, err := f.Fill(t.Context(), bytes.NewReader(data), 0, int64(len(data)), 0, nil)
				if have := s.content(); int64(len(have)) < n || !bytes.Equal(have[:n], data[:n]) || (err == nil) != (n == int64(len(data))) {
					t.Errorf("Fill = %d, %v; the server has %d bytes", n, err, len(have))
				}
				s.mu.Lock()
				s.on = nil
				s.mu.Unlock()
				_ = f.Close(t.Context(), true)
				wantIdle(t, m)
			})
		})
	}
	if whole == 0 || whole == 60 {
		t.Errorf("%d of 60 files came whole: the test shows one case only", whole)
	}
}
