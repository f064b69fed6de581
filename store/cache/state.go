package cache

import (
	"container/list"
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

// A state holds what all readers of a cache share: the fetches from sources and the blocks
// on the disk, under one lock.
type state struct {
	cfg      Config
	disk     *disk
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // all goroutines
	isClosed atomic.Bool
	noTries  atomic.Bool // the file system cannot say what is in memory
	count    counters
	troubles
	times

	// storing is held to store a block, and alone to give a directory another name, or to
	// give the cache up. It is taken before object.saving, and that before mu.
	storing sync.RWMutex

	mu        sync.Mutex
	room      *sync.Cond         // of mu: there is memory again
	writing   bool               // mu: this process holds the directory; see load and Release
	objects   map[string]*object // mu: by id
	blocks    *list.List         // mu: *block, those used last first
	open      *list.List         // mu: *block, those with an open file
	kept      *list.List         // mu: keptFetch, those that are kept longest first
	held      int64              // mu: bytes of the directory, and set aside
	memory    int64              // mu: bytes of fetches
	running   int                // mu: fetches under way
	upstreams int                // mu: calls of Store
}

// newState returns the state of a cache that holds nothing.
func newState(cfg Config, d *disk) *state {
	c := &state{cfg: cfg, disk: d, objects: map[string]*object{}, blocks: list.New(), open: list.New(), kept: list.New()}
	c.now = time.Now
	c.troubles.log, c.troubles.times = cfg.Log, &c.times
	c.room = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// An object is one version of a file. It is in state.objects as long as it may be found:
// while it has blocks or readers, or a name leads to it.
type object struct {
	identity
	c    *state
	from *upstream

	saving  sync.Mutex  // held to make and to remove the directory; taken before state.mu
	opening sync.Mutex  // held to open live; taken before state.mu
	written atomic.Bool // in place, through the cache: then its readers read the source

	// All below is guarded by state.mu.

	info    fs.FileInfo // as the source has described it; nil until it was asked
	dir     string      // on the disk, if there is one
	onDisk  bool        // there is
	gone    bool        // it was replaced: its blocks go with its last reader
	named   bool        // a name leads to it
	suspect bool        // the source has not given it: it is asked again before the next reader
	readers int
	blocks  map[int64]*block
	fetching
}

// A block is a part of an object that is on the disk.
type block struct {
	o     *object
	index int64
	sum   uint32
	size  int

	refs    atomic.Int32 // readers, and the one that opens it; grows with mu held
	dropped atomic.Bool  // it is in no list; set with mu held
	deleted atomic.Bool

	// All below is guarded by state.mu.

	file    store.File // if it is open
	try     store.TryReader
	lent    bool           // a reader has the offset of file
	checked bool           // its checksum was right, or this process has written it
	seen    store.Identity // of its file then; zero where the system has none
	opening chan struct{}  // closed when the file is ready, or the block cannot be used
	used    time.Time
	place   *list.Element // in state.blocks
	opened  *list.Element // in state.open
}

func (b *block) cost() int64 { return blockCost(b.size) }

func (b *block) name() string { return blockName(b.index, b.sum) }

// ready reports whether the file of a block can be read: it is open, and its checksum was right
// when somebody looked last. The caller holds state.mu.
func (b *block) ready() bool { return b.file != nil && b.checked }

// newObject returns an object without blocks. The caller holds mu.
func (c *state) newObject(i identity) *object {
	return &object{identity: i, c: c, dir: i.id(), blocks: map[int64]*block{}, fetching: newFetching()}
}

// object returns the object of an identity, which may be new. The caller holds mu.
func (c *state) object(i identity) *object {
	id := i.id()
	o := c.objects[id]
	if o == nil {
		o = c.newObject(i)
		c.objects[id] = o
	}
	return o
}

// forget drops an object that nothing leads to. The caller holds mu.
func (o *object) forget() {
	if len(o.blocks) == 0 && !o.onDisk && o.readers == 0 && !o.named && o.c.objects[o.id()] == o {
		delete(o.c.objects, o.id())
		for _, t := range o.fetches {
			if t.ended {
				o.lose(t)
			}
		}
	}
}

// complete reports whether all blocks are on the disk, or in memory: those that are being
// stored, and those that cannot be. The caller holds mu.
func (o *object) complete() bool {
	there := int64(len(o.blocks))
	for _, t := range o.fetches {
		if t.buf != nil && t.filled == len(t.buf) && o.blocks[t.index] == nil {
			there++
		}
	}
	return there == blocksOf(o.size)
}

// fetching is the part of an object that has to do with its source. It is guarded by
// state.mu.
type fetching struct {
	fetches map[int64]*fetch // queued, under way, and kept
	queue   []*fetch
	streams []*stream
	idle    []*origin
	live    *origin         // for readers, as the file was written in place
	single  bool            // the source gives the version no second time
	ctx     context.Context // ends with the last reader
	cancel  context.CancelFunc
}

func newFetching() fetching { return fetching{fetches: map[int64]*fetch{}} }

// A fetch is a block that comes from the source. Readers copy from it what has come. If it
// cannot be stored, it is kept until others need the memory.
//
// All fields are guarded by state.mu, but sum, which is the stream's that fetches. The first
// filled bytes of buf do not change any more.
type fetch struct {
	index   int64
	buf     []byte // from when it is under way
	filled  int
	sum     uint32 // the checksum of these
	err     error
	ended   bool // with err, or with all bytes
	lost    bool // it is in no object any more
	ahead   bool // nobody asked for it yet
	waiting int  // readers
	refs    int  // readers that copy, and the stream
	wake    chan struct{}
	kept    *list.Element // in state.kept
}

// progress returns a channel that is closed when more has come. The caller holds mu.
func (t *fetch) progress() chan struct{} {
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// advance wakes those who wait. The caller holds mu.
func (t *fetch) advance() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// A stream fetches blocks of an object, one after the other.
type stream struct {
	at    int64     // mu: the block that it fetches; the one before its first at the beginning
	src   *origin   // mu, but for the stream itself, which alone sets it
	piece int       // bytes that it reads at once
	asked time.Time // when it asked the source last
}

// lose takes a fetch out of its object. The caller holds mu.
func (o *object) lose(t *fetch) {
	if o.fetches[t.index] == t {
		delete(o.fetches, t.index)
	}
	t.lost = true
	if t.kept != nil {
		o.c.kept.Remove(t.kept)
		t.kept = nil
	}
	o.c.recycle(t)
}

// recycle gives the memory of a fetch back if nobody needs it. The caller holds mu.
func (c *state) recycle(t *fetch) {
	if t.buf == nil || t.refs > 0 {
		return
	}
	if !t.lost {
		if t.kept != nil {
			c.room.Broadcast() // it can be dropped now
		}
		return
	}
	c.memory -= int64(len(t.buf))
	if len(t.buf) == blockSize {
		blockBuffers.Put((*[blockSize]byte)(t.buf))
	}
	t.buf = nil
	c.room.Broadcast()
}

var blockBuffers = sync.Pool{New: func() any { return new([blockSize]byte) }}

// maxFetches is how many blocks of all files are fetched at once. Each source has its share of them.
const maxFetches = 64

// share is how many blocks of one source are fetched at once, so that one that does not answer
// leaves memory to the others. The caller holds mu.
func (c *state) share() int {
	return max(1, min(maxFetches, int(c.cfg.Memory/blockSize))/max(1, c.upstreams))
}

// takeMemory gives a fetch its memory, when there is some, and its source one of its places.
// It reports false if ctx ends.
func (c *state) takeMemory(ctx context.Context, up *upstream, t *fetch, n int) bool {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})()
	c.mu.Lock()
	defer c.mu.Unlock()
	for up.running >= c.share() || t.buf == nil && c.memory+int64(n) > c.cfg.Memory {
		if ctx.Err() != nil {
			return false
		}
		if up.running >= c.share() || !c.dropKept() {
			c.room.Wait()
		}
	}
	up.running++
	c.running++
	if t.buf != nil { // another stream has left it
		return true
	}
	c.memory += int64(n)
	if n == blockSize {
		t.buf = blockBuffers.Get().(*[blockSize]byte)[:]
	} else {
		t.buf = make([]byte, n)
	}
	return true
}

// dropKept drops the block in memory that was kept for the longest time. The caller holds
// mu.
func (c *state) dropKept() bool {
	for e := c.kept.Front(); e != nil; e = e.Next() {
		k := e.Value.(keptFetch)
		if k.t.refs == 0 {
			k.o.lose(k.t)
			k.o.forget()
			return true
		}
	}
	return false
}

// A keptFetch is a block that could not be stored.
type keptFetch struct {
	o *object
	t *fetch
}

// readable reports whether the object can be read without opening it at the source first.
// The caller holds mu.
func (o *object) readable() bool {
	return o.complete() || len(o.idle) > 0 || len(o.streams) > 0
}

// lastUse returns when a block was used last. The caller holds mu.
func (o *object) lastUse() (last time.Time) {
	for _, b := range o.blocks {
		if b.used.After(last) {
			last = b.used
		}
	}
	return last
}

// start starts a goroutine, unless the cache is closed. The caller holds mu.
func (c *state) start(task func()) {
	if !c.isClosed.Load() {
		c.tasks.Go(task)
	}
}
