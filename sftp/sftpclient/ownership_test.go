package sftpclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/uploadrecord"
	"github.com/haul-project/haul/store"
)

// A rival is one of several simultaneous uploads of the same file, as if by independent processes.
type rival struct {
	k    *resumableUpload
	at   int64
	data []byte
	err  error
}

// step performs the next step of an upload: to begin, to write the next piece, or to finish. It
// reports whether the upload is done.
func (r *rival) step(t *testing.T, c *Client, source string, piece int64) (done bool) {
	switch size := int64(len(r.data)); {
	case r.k == nil:
		c.recordEvery = piece
		u, err := c.Store("").Create(t.Context(), "f", store.Create{Size: size, Resume: "me", Source: source})
		if r.err = err; err != nil {
			return true
		}
		r.k = u.(*resumableUpload)
		r.at = r.k.Resumed()
	case r.at < size:
		n, err := r.k.FillFrom(t.Context(), bytes.NewReader(r.data), r.at, min(piece, size-r.at))
		r.at += n
		if r.err = err; err != nil {
			_ = r.k.Close()
			return true
		}
		r.k.pending.Wait()
	default:
		// Do not wait for the other upload, which may be slow.
		r.k.exclusiveFrom = r.k.exclusiveFrom.AddDate(-1, 0, 0)
		r.err = r.k.Commit()
		_ = r.k.Close()
		return true
	}
	return false
}

// contend interleaves two uploads of the same file to the same name, from one source or from two.
// If one of them reports that it published the file, the file must exist and be complete.
func contend(t *testing.T, client func() *Client, read func() ([]byte, error), sources [2]string, seed uint64) {
	rnd := rand.New(rand.NewPCG(2, seed))
	again := fmt.Sprintf("seed %d of %q", seed, sources)
	rivals := [2]*rival{}
	for i := range rivals {
		size, fill := 500_000, byte(1)
		if sources[i] != sources[0] {
			fill = 2
		}
		rivals[i] = &rival{data: pattern(size, fill)}
	}
	clients := [2]*Client{client(), client()}
	defer clients[0].Close()
	defer clients[1].Close()
	done := [2]bool{}
	won := 0
	for !done[0] || !done[1] {
		i := rnd.IntN(2)
		if done[i] {
			i = 1 - i
		}
		r := rivals[i]
		if done[i] = r.step(t, clients[i], sources[i], 100_000); !done[i] {
			continue
		}
		got, err := read()
		switch {
		case r.err == nil && (err != nil || !bytes.Equal(got, r.data)):
			t.Errorf("%s: upload %d has no error, and what is there are %d other bytes, %v", again, i, len(got), err)
		case r.err == nil:
			won++
		case !errors.Is(r.err, store.ErrBusy):
			t.Errorf("%s: upload %d: %v", again, i, r.err)
		}
	}
	got, err := read()
	if won > 0 && (err != nil || !bytes.Equal(got, rivals[0].data) && !bytes.Equal(got, rivals[1].data)) {
		t.Errorf("%s: in the end there are %d bytes of neither, %v", again, len(got), err)
	}
	if won == 0 {
		t.Errorf("%s: neither came to its end", again)
	}
}

// fight has an upload take over the file of another upload from the same source, which has pending
// writes. The moment of the takeover, and the moment at which the old upload notices it, depend on
// the seed. The new upload must publish the complete file. fight returns how many bytes it resumed.
func fight(t *testing.T, client func() *Client, read func() ([]byte, error), seed uint64) (resumed int64) {
	const every = 200_000
	data := pattern(3_000_000, 1)
	size := int64(len(data))
	rnd := rand.New(rand.NewPCG(3, seed))
	part := rnd.Int64N(size / 2) // number of bytes written before; recorded if there are enough
	takenAt, seenAt := part+rnd.Int64N(size-part), rnd.Int64N(size+size/2)
	again := fmt.Sprintf("seed %d: taken over at byte %d and seen when the other is at %d", seed, takenAt, seenAt)
	begin := func(c *Client) (*resumableUpload, error) {
		c.recordEvery = every
		u, err := c.Store("").Create(t.Context(), "f", store.Create{Size: size, Resume: "me", Source: "one"})
		if err != nil {
			return nil, err
		}
		return u.(*resumableUpload), nil
	}
	clients := [2]*Client{client(), client()}
	defer clients[0].Close()
	defer clients[1].Close()
	old, err := begin(clients[0])
	if err != nil {
		t.Error(again, err)
		return 0
	}
	take, look, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	nextDone := make(chan error, 1)
	go func() {
		let := sync.OnceFunc(func() { // the old upload ends while the new one waits
			close(look)
			<-ended
		})
		defer let()
		<-take
		next, err := begin(clients[1])
		if err != nil {
			nextDone <- err
			return
		}
		resumed = next.Resumed()
		r := readerAt(func(p []byte, off int64) (int, error) {
			if off >= seenAt {
				let()
			}
			return bytes.NewReader(data).ReadAt(p, off)
		})
		if _, err = next.FillFrom(t.Context(), r, resumed, size-resumed); err == nil {
			if seenAt < size+size/4 {
				let()
			}
			next.exclusiveFrom = next.exclusiveFrom.AddDate(-1, 0, 0)
			err = next.Commit()
		}
		_ = next.Close()
		nextDone <- err
	}()
	start := sync.OnceFunc(func() {
		close(take)
		<-look
		old.owner.mu.Lock()
		old.owner.last = time.Time{}
		old.owner.mu.Unlock()
	})
	if _, err := old.FillFrom(t.Context(), bytes.NewReader(data), 0, part); err != nil {
		t.Error(again, err)
	}
	old.pending.Wait()
	_, err = old.FillFrom(t.Context(), readerAt(func(p []byte, off int64) (int, error) {
		if off+int64(len(p)) >= takenAt {
			start()
		}
		return bytes.NewReader(data).ReadAt(p, off)
	}), part, size-part)
	if !errors.Is(err, store.ErrBusy) {
		t.Errorf("%s: the old one: %v", again, err)
	}
	if err := old.Close(); err != nil {
		t.Errorf("%s: the old one's end: %v", again, err)
	}
	close(ended)
	if err := <-nextDone; err != nil {
		t.Errorf("%s: the next one: %v", again, err)
	}
	if got, err := read(); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s: %d other bytes are there, %v", again, len(got), err)
	}
	list, err := clients[1].ReadDir(t.Context(), ".")
	for _, e := range list {
		if isUpload(e.Name()) {
			t.Errorf("%s: %s is left", again, e.Name())
		}
	}
	if err != nil {
		t.Error(again, err)
	}
	return resumed
}

type readerAt func(p []byte, off int64) (int, error)

func (r readerAt) ReadAt(p []byte, off int64) (int, error) { return r(p, off) }

func TestHaulToHaulContends(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, hidden := range []bool{false, true} {
		tree := openHaulTree(t, "directory")
		h := newHaulHost(t, tree, hidden)
		client := func() *Client {
			s, err := h.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := New(t.Context(), s, Config{Connect: h.dial})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return c
		}
		read := func() ([]byte, error) {
			f, err := tree.Open(t.Context(), "f")
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return io.ReadAll(io.NewSectionReader(f, 0, 8<<20))
		}
		for seed := range uint64(race.Fewer(20, 4)) {
			for _, sources := range [][2]string{{"one", "one"}, {"one", "two"}} {
				_ = tree.Remove(t.Context(), "f")
				contend(t, client, read, sources, seed)
			}
		}
		resumed := int64(0)
		for seed := range uint64(20) {
			_ = tree.Remove(t.Context(), "f")
			resumed += fight(t, client, read, seed)
		}
		if resumed == 0 {
			t.Error("no upload had anything of the one that it took over")
		}
		t.Cleanup(func() {
			h.stop()
			h.wait.Wait()
		})
	}
}

func TestOpenSSHServerContends(t *testing.T) {
	for seed := range uint64(20) {
		for _, sources := range [][2]string{{"one", "one"}, {"one", "two"}} {
			dir := t.TempDir()
			client := func() *Client { return openSSHClientIn(t, Config{}, dir) }
			read := func() ([]byte, error) { return os.ReadFile(dir + "/f") }
			contend(t, client, read, sources, seed)
		}
	}
	resumed := int64(0)
	for seed := range uint64(20) {
		dir := t.TempDir()
		client := func() *Client { return openSSHClientIn(t, Config{}, dir) }
		resumed += fight(t, client, func() ([]byte, error) { return os.ReadFile(dir + "/f") }, seed)
	}
	if resumed == 0 {
		t.Error("no upload had anything of the one that it took over")
	}
}

// An upload whose file is taken over while it writes notices that, and stops.
func TestNoticesTakeOver(t *testing.T) {
	data := pattern(4<<20, 1)
	withFakeServer(t, Config{RequestBytes: 32 << 10}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		old := keeper(t, c, "f", int64(len(data)))
		if n, err := old.FillFrom(t.Context(), bytes.NewReader(data), 0, 1<<20); n != 1<<20 || err != nil {
			t.Fatal(n, err)
		}
		old.pending.Wait()
		var next *resumableUpload
		var once sync.Once
		r := slowReader{bytes.NewReader(data), func() {
			once.Do(func() { next = keeper(t, c, "f", int64(len(data))) })
			time.Sleep(100 * time.Millisecond)
		}}
		if _, err := old.FillFrom(t.Context(), struct{ io.ReaderAt }{r}, 1<<20, 3<<20); !errors.Is(err, store.ErrBusy) {
			t.Errorf("the old one: %v", err)
		}
		if err := old.Truncate(1 << 20); !errors.Is(err, store.ErrBusy) {
			t.Errorf("the old one cuts the file of the next one: %v", err)
		}
		if err := old.Close(); err != nil {
			t.Error(err)
		}
		if next.Resumed() == 0 {
			t.Error("the next one has nothing")
		}
		if _, err := next.FillFrom(t.Context(), bytes.NewReader(data), next.Resumed(), int64(len(data))-next.Resumed()); err != nil {
			t.Error(err)
		}
		if err := next.Commit(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "f"), data) {
			t.Error("the file has other bytes")
		}
		if left := p.hiddenNames(t); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
}

// An upload that was idle checks whether it still owns its file before it writes again, and does
// not publish a file with fewer bytes than were written.
func TestChecksOwnershipAgain(t *testing.T) {
	data := pattern(500_000, 1)
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		old := keeper(t, c, "f", int64(len(data)))
		if _, err := old.WriteAt(data[:400_000], 0); err != nil {
			t.Error(err)
		}
		if err := old.f.awaitWrites(t.Context()); err != nil {
			t.Error(err)
		}
		old.confirm(0, 400_000)
		old.pending.Wait()
		time.Sleep(10 * ownEvery)
		next := keeper(t, c, "f", int64(len(data)))
		if next.Resumed() == 0 {
			t.Error("the next one has nothing")
		}
		if _, err := old.WriteAt(data[400_000:], 400_000); !errors.Is(err, store.ErrBusy) {
			t.Errorf("the old one: %v, want %v", err, store.ErrBusy)
		}
		if err := old.Close(); err != nil {
			t.Error(err)
		}
		if _, err := next.WriteAt(data[next.Resumed():], next.Resumed()); err != nil {
			t.Error(err)
		}
		if err := next.f.awaitWrites(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.SetAttr(t.Context(), next.temp, store.Attr{Size: new(int64(450_000))}, true); err != nil {
			t.Error(err)
		}
		if err := next.Commit(); !errors.Is(err, store.ErrBusy) {
			t.Errorf("Commit of a file that has lost bytes: %v, want %v", err, store.ErrBusy)
		}
		if _, err := c.Stat(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is published: %v", err)
		}
		if err := next.Discard(); err != nil {
			t.Error(err)
		}
	})
}

// Records are written alternately to two offsets, so that a write that is cut off leaves the other
// record intact.
func TestRecordsAlternate(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		k := keeper(t, c, "f", 1<<20)
		for whole := range int64(4) {
			k.record.mu.Lock()
			err := k.record.checkpoint(t.Context(), whole+1, nil)
			k.record.mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			b := p.get(t, nameIn([]byte(k.record.name)))
			if r, ok := uploadrecord.Newest(b); !ok || r.Whole != whole+1 {
				t.Errorf("the newest record has %d bytes, want %d", r.Whole, whole+1)
			}
			one, ok1 := uploadrecord.Parse(b)
			two, ok2 := uploadrecord.Parse(b[min(uploadrecord.Slot, len(b)):])
			if !ok1 || !ok2 || one.Seq+1 != two.Seq && two.Seq+1 != one.Seq {
				t.Errorf("after %d bytes there are the records %+v, %+v", whole+1, one, two)
			}
		}
		if err := k.Discard(); err != nil {
			t.Error(err)
		}
	})
}

// If another upload has replaced the record, or the file is not a record, the client does not
// change the file.
func TestLeavesForeignRecords(t *testing.T) {
	const size = 1 << 20
	data := pattern(size, 1)
	foreign := uploadrecord.Record{Seq: 7, Whole: 5, Size: size, Source: 9, Open: true, File: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}.AppendTo(nil)
	for name, content := range map[string][]byte{"another's": foreign, "no record": []byte("text"), "an empty file": {}} {
		for _, act := range []string{"checkpoint", "Close", "Discard"} {
			withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
				k := keeper(t, c, "f", size)
				if _, err := k.WriteAt(data[:500_000], 0); err != nil {
					t.Error(err)
				}
				k.pending.Wait()
				replaced, err := c.OpenFile(t.Context(), k.record.name, os.O_WRONLY|os.O_TRUNC, 0)
				if err == nil {
					_, err = replaced.Write(content)
				}
				if err := errors.Join(err, replaced.Close()); err != nil {
					t.Fatal(err)
				}
				switch act {
				case "checkpoint":
					k.record.mu.Lock()
					for range 2 {
						if err := k.record.checkpoint(t.Context(), 400_000, nil); !errors.Is(err, store.ErrBusy) {
							t.Errorf("%s: checkpoint: %v, want %v", name, err, store.ErrBusy)
						}
					}
					k.record.mu.Unlock()
					_ = k.Discard()
				case "Close":
					_ = k.Close()
				case "Discard":
					_ = k.Discard()
				}
				if got := p.get(t, strings.TrimPrefix(k.record.name, "./")); !bytes.Equal(got, content) {
					t.Errorf("%s: %s leaves %q in its place", name, act, got)
				}
			})
		}
	}
}

// A file that other users may read cannot be the upload's record, so the client leaves it alone,
// even if the upload had a record under this name before.
func TestLeavesForeignRecordsOfAnyMode(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		k := keeper(t, c, "f", 1<<20)
		if k.record.seq == 0 {
			t.Error("the upload has no record")
		}
		if err := c.RemoveFile(t.Context(), k.record.name); err != nil {
			t.Error(err)
		}
		text := []byte("another's")
		p.put(t, nameIn([]byte(k.record.name)), text)
		if err := k.Discard(); err != nil {
			t.Error(err)
		}
		if got := p.get(t, nameIn([]byte(k.record.name))); !bytes.Equal(got, text) {
			t.Errorf("Discard leaves %q in its place", got)
		}
	})
}
