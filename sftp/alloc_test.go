package sftp

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// A scriptedStream is a channel on which the same requests arrive repeatedly. Output is dropped.
type scriptedStream struct {
	requests []byte
	left     []byte
	sent     int
}

var errScript = errors.New("no more in the script")

func (s *scriptedStream) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		return 0, errScript
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

func (s *scriptedStream) Write(p []byte) (int, error) {
	s.sent += len(p)
	return len(p), nil
}

// Reading and writing do not allocate, in memory or on a disk, with hidden uploads or without.
func TestAllocates(t *testing.T) {
	if race.Enabled {
		t.Skip("pools lose what they are given")
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, tree := range map[string]store.Tree{"memory": store.Mem(0), "disk": localdir.New(root)} {
		for _, hidden := range []bool{false, true} {
			for _, size := range []int{100, 32 << 10, maxData} {
				d := newDirectServer(t, func(_ *Server, a *Account) { a.Tree, a.Hidden = tree, hidden })
				script := &scriptedStream{}
				s := newSession(t.Context(), &d.connect().userConn, script)
				play := func(b []byte) {
					script.requests, script.left = b, b
					for {
						packet, err := s.next()
						if err == errScript {
							return
						}
						if err == nil {
							err = s.handle(packet)
						}
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				play(wire.AppendInit(nil, 3))
				play(wire.AppendOpen(nil, 1, "file", openAnew, wire.Attrs{}))
				var h string
				for o := range s.handles.all() {
					h = o.key
				}
				var writes, reads []byte
				for i := range 8 {
					writes = wire.AppendWrite(writes, 2, h, int64(i*size), make([]byte, size))
				}
				play(writes) // allocates the file's memory
				if n := testing.AllocsPerRun(50, func() { play(writes) }); n > 0 {
					t.Errorf("%s, hidden %v: %v allocations for 8 WRITEs of %d bytes", name, hidden, n, size)
				}
				play(wire.AppendClose(nil, 3, h))
				play(wire.AppendOpen(nil, 4, "file", wire.OpenRead, wire.Attrs{}))
				for o := range s.handles.all() {
					h = o.key
				}
				for i := range 8 {
					reads = wire.AppendRead(reads, 5, h, int64(i*size), uint32(size))
				}
				script.sent = 0
				play(reads)
				if want := 8 * (size + wire.DataHeaderSize); script.sent != want {
					t.Errorf("%s: %d bytes were sent, want %d", name, script.sent, want)
				}
				if n := testing.AllocsPerRun(50, func() { play(reads) }); n > 0 {
					t.Errorf("%s: %v allocations for 8 READs of %d bytes", name, n, size)
				}
				s.end()
			}
		}
	}
}

// A waiting session uses little memory.
func TestIdleMemory(t *testing.T) {
	d := newDirectServer(t, nil)
	c := d.connect()
	var sessions []*session
	before := heap()
	for range 1000 {
		script := &scriptedStream{left: wire.AppendInit(nil, 3)}
		s := newSession(t.Context(), &c.userConn, script)
		for {
			packet, err := s.next()
			if err != nil {
				break
			}
			if err := s.handle(packet); err != nil {
				t.Fatal(err)
			}
		}
		sessions = append(sessions, s)
	}
	if each := (heap() - before) / 1000; each > 12<<10 {
		t.Errorf("a session that waits holds %d bytes", each)
	}
	for _, s := range sessions {
		s.end()
	}
}

var _ io.ReadWriter = (*scriptedStream)(nil)
