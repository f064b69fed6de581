package tftp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const page = 4096 // size in bytes of the parts of a pagedFile that are in memory, or not, as a whole

// A pagedStore is a store of files that have an identity. A test controls which parts of them are
// in memory.
type pagedStore struct {
	store.Store
	vols map[string]*pagedFile
	ids  []store.Identity // identities that are not used yet
}

// A pagedFile is the content of a file.
type pagedFile struct {
	data  []byte
	id    store.Identity
	cold  map[int64]bool            // pages that are not in memory
	fades bool                      // data that a worker has read is dropped from memory at once
	try   func(off int64) error     // called before each TryReadAt
	asked int                       // bytes requested from TryReadAt within the file
	tries int                       // number of calls of TryReadAt
	read  func(p []byte, off int64) // called before each ReadAt
}

// newPagedStore returns a store with room for n files.
func newPagedStore(t testing.TB, n int) *pagedStore {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	l := &pagedStore{vols: map[string]*pagedFile{}}
	d := localdir.New(root)
	for i := range n {
		storetest.Put(t, d, fmt.Sprint(i), "")
		f, err := d.Open(context.Background(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		file, ok := f.(store.Identifier)
		if !ok {
			t.Skip("files have no identity on this system")
		}
		id, ok := file.Identity()
		if !ok {
			t.Fatal("a file has no identity")
		}
		l.ids = append(l.ids, id)
	}
	return l
}

// put adds a file to the store, and replaces one with the same name.
func (l *pagedStore) put(name string, data []byte) *pagedFile {
	v := &pagedFile{data: data, id: l.ids[0]}
	l.ids = l.ids[1:]
	l.vols[name] = v
	return v
}

func (l *pagedStore) Open(_ context.Context, name string) (store.File, error) {
	v := l.vols[name]
	if v == nil {
		return nil, fs.ErrNotExist
	}
	return v, nil
}

func (v *pagedFile) Stat() (fs.FileInfo, error)       { return tftptest.FileSize(len(v.data)), nil }
func (v *pagedFile) Close() error                     { return nil }
func (v *pagedFile) Identity() (store.Identity, bool) { return v.id, true }

func (v *pagedFile) ReadAt(p []byte, off int64) (int, error) {
	if v.read != nil {
		v.read(p, off)
	}
	if off >= int64(len(v.data)) {
		return 0, io.EOF
	}
	n := copy(p, v.data[off:])
	for i := off / page; i*page < off+int64(n) && !v.fades; i++ {
		delete(v.cold, i)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TryReadAt reads as preadv2 with RWF_NOWAIT does: up to the first byte that is not in memory.
func (v *pagedFile) TryReadAt(bufs [][]byte, off int64) (int, error) {
	v.tries++
	if v.try != nil {
		if err := v.try(off); err != nil {
			return 0, err
		}
	}
	if off >= int64(len(v.data)) {
		return 0, io.EOF
	}
	end := int64(len(v.data))
	for i := off / page; i*page < end && len(v.cold) > 0; i++ {
		if v.cold[i] {
			end = i * page
		}
	}
	if end <= off {
		return 0, store.ErrWouldBlock
	}
	n := 0
	for _, b := range bufs {
		n += copy(b, v.data[min(off+int64(n), end):end])
	}
	v.asked += n
	return n, nil
}

// A tap is a socket that keeps the latest datagram to each peer.
type tap struct {
	deadEnd
	latest map[netip.AddrPort][]byte
}

func (o *tap) Write(ms []udp.Message) (int, error) {
	for i := range ms {
		for d := range ms[i].Datagrams() {
			o.latest[ms[i].Peer] = append(o.latest[ms[i].Peer][:0], d...)
		}
	}
	return len(ms), nil
}

// A lockstepServer is a server with one shard. A test controls each step of its readers.
type lockstepServer struct {
	*steppedServer
	t   testing.TB
	out *tap
}

func newLockstepServer(t testing.TB, s Config) *lockstepServer {
	m := newSteppedServer(s)
	d := &lockstepServer{m, t, &tap{latest: map[netip.AddrPort][]byte{}}}
	b := m.bindings[0]
	m.sh = newShard(b, d.out, false)
	b.shards = []*shard{m.sh}
	m.share()
	return d
}

// shared returns the shared cache of a file, or nil if no transfer reads it.
func (d *lockstepServer) shared(v *pagedFile) *sharedCache { return d.sh.shared[v.id] }

// wantNothingShared checks that all memory was returned.
func (d *lockstepServer) wantNothingShared(what string) {
	d.t.Helper()
	d.turn(0) // closes files that readers no longer need
	d.turn(0)
	if len(d.sh.shared) != 0 {
		d.t.Errorf("%s: %d files are still shared", what, len(d.sh.shared))
	}
	wantAllFree(d.t, d.Server, what)
}

// A lockstepReader is a client in lock-step.
type lockstepReader struct {
	server *lockstepServer
	peer   netip.AddrPort
	block  int // block size in bytes
	acked  int // number of acknowledged blocks
	got    []byte
	done   bool
	err    string // text of the ERROR that ended the transfer
}

var lockstepReaders int

// reads starts a transfer.
func (d *lockstepServer) reads(name string, block int) *lockstepReader {
	d.t.Helper()
	lockstepReaders++
	p := &lockstepReader{server: d, peer: peerAt(lockstepReaders * 7), block: block}
	d.ask(p.peer, tftptest.RRQ(name, "blksize", strconv.Itoa(block)))
	d.turn(0)
	d.turn(0)
	if want, got := tftptest.OACK("blksize", strconv.Itoa(block)), d.out.latest[p.peer]; !bytes.Equal(got, want) {
		d.t.Fatalf("%s in blocks of %d: answer %q", name, block, got)
	}
	return p
}

// step acknowledges the last packet, and receives the next block.
func (p *lockstepReader) step() {
	d := p.server
	d.t.Helper()
	delete(d.out.latest, p.peer)
	d.deliver(0, p.peer, tftptest.ACK(p.acked))
	d.turn(1)
	if p.done {
		return
	}
	for range 3 { // a worker may have to read first
		if d.out.latest[p.peer] == nil {
			d.turn(0)
		}
	}
	b := d.out.latest[p.peer]
	switch transfer.OpcodeOf(b) {
	case transfer.Data:
		if n := int(b[2])<<8 | int(b[3]); n != (p.acked+1)&0xffff {
			d.t.Fatalf("%v: block %d after %d", p.peer, n, p.acked)
		}
		p.acked++
		p.got = append(p.got, b[4:]...)
		p.done = len(b)-4 < p.block
	case transfer.ErrorPacket:
		p.err = string(b[4:])
	default:
		d.t.Fatalf("%v: after block %d: %q", p.peer, p.acked, b)
	}
}

// over reports whether no further step is possible.
func (p *lockstepReader) over() bool { return p.done || p.err != "" }

// all steps the readers, in random order, until all of them are done.
func (d *lockstepServer) all(rng *rand.Rand, readers ...*lockstepReader) {
	d.t.Helper()
	readers = slices.Clone(readers)
	for len(readers) > 0 {
		i := rng.IntN(len(readers))
		p := readers[i]
		for range 1 + rng.IntN(20) {
			if !p.over() {
				p.step()
			}
		}
		if p.over() {
			if p.done {
				p.step() // the last ACK
			}
			readers = slices.Delete(readers, i, i+1)
		}
	}
}
