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

// A state holds everything that the readers of a cache share: the fetches from sources and the
// blocks on the disk, under one lock.
type state struct {
	cfg      Config
	disk     *disk
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // all goroutines
	isClosed atomic.Bool
	noTries  atomic.Bool // the file system cannot report which data is in memory
	count    counters
	troubles
	times

	// storing is read-locked while a block is stored. It is locked while a directory is renamed,
	// and while the cache is released. It is taken before object.saving, which is taken before mu.
	storing sync.RWMutex

	mu        sync.Mutex
	room      *sync.Cond         // uses mu: signals that memory is free
	writing   bool               // mu: this process holds the directory; see load and Release
	objects   map[string]*object // mu: by id
	blocks    *list.List         // mu: *block, the most recently used first
	open      *list.List         // mu: *block, those with an open file
	kept      *list.List         // mu: keptFetch, the oldest first
	held      int64              // mu: bytes used or reserved in the directory
	memory    int64              // mu: bytes of fetches
	running   int                // mu: fetches under way
	upstreams int                // mu: number of calls of Store
}

// newState returns the state of an empty cache.
func newState(cfg Config, d *disk) *state {
	c := &state{cfg: cfg, disk: d, objects: map[string]*object{}, blocks: list.New(), open: list.New(), kept: list.New()}
	c.now = time.Now
	c.troubles.log, c.troubles.times = cfg.Log, &c.times
	c.room = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// An object is one version of a file. It is in state.objects as long as it has blocks or readers,
// or a name leads to it.
type object struct {
	identity
	c    *state
	from *upstream

	saving  sync.Mutex  // held while the directory is created or removed; taken before state.mu
	opening sync.Mutex  // held while live is opened; taken before state.mu
	written atomic.Bool // the file was written in place through the cache: readers now read the source

	// All fields below are guarded by state.mu.

	info    fs.FileInfo // the source's description; nil before the source was asked
	dir     string      // name of its directory on the disk, if onDisk
	onDisk  bool        // the directory exists
	gone    bool        // it was replaced: its blocks are removed with its last reader
	named   bool        // a name leads to it
	suspect bool        // the source failed to provide it: the source is asked again before the next reader
	readers int
	blocks  map[int64]*block
	fetching
}

// A block is a part of an object that is stored on the disk.
type block struct {
	o     *object
	index int64
	sum   uint32
	size  int

	refs    atomic.Int32 // its readers, and the goroutine that opens it; increased only with mu held
	dropped atomic.Bool  // whether it has been removed from all lists; set with mu held
	deleted atomic.Bool

	// All fields below are guarded by state.mu.

	file    store.File // nil if it is not open
	try     store.TryReader
	lent    bool           // a reader is using the offset of file
	checked bool           // its checksum was verified, or this process has written it
	seen    store.Identity // identity of its file when it was verified or written; zero if the system has no identities
	opening chan struct{}  // closed when file is ready, or when the block cannot be used
	used    time.Time
	place   *list.Element // in state.blocks
	opened  *list.Element // in state.open
}

func (b *block) cost() int64 { return blockCost(b.size) }

func (b *block) name() string { return blockName(b.index, b.sum) }

// ready reports whether the file of a block can be read: it is open, and its checksum was right
// when it was last verified. The caller holds state.mu.
func (b *block) ready() bool { return b.file != nil && b.checked }

// newObject returns an object without blocks. The caller holds mu.
func (c *state) newObject(i identity) *object {
	return &object{identity: i, c: c, dir: i.id(), blocks: map[int64]*block{}, fetching: newFetching()}
}

// object returns the object with an identity. It creates one if necessary. The caller holds mu.
func (c *state) object(i identity) *object {
	id := i.id()
	o := c.objects[id]
	if o == nil {
		o = c.newObject(i)
		c.objects[id] = o
	}
	return o
}

// forget removes an object to which nothing leads. The caller holds mu.
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

// complete reports whether all blocks are on the disk or in memory: blocks in memory are being
// stored, or could not be stored. The caller holds mu.
func (o *object) complete() bool {
	there := int64(len(o.blocks))
	for _, t := range o.fetches {
		if t.buf != nil && t.filled == len(t.buf) && o.blocks[t.index] == nil {
			there++
		}
	}
	return there == blocksOf(o.size)
}

// fetching is the part of an object that concerns its source. It is guarded by state.mu.
type fetching struct {
	fetches map[int64]*fetch // queued, under way, and kept in memory
	queue   []*fetch
	streams []*stream
	idle    []*origin
	live    *origin         // the source for readers after the file was written in place
	single  bool            // the source delivers this version only once
	ctx     context.Context // ends when the last reader leaves
	cancel  context.CancelFunc
}

func newFetching() fetching { return fetching{fetches: map[int64]*fetch{}} }

// A fetch is a block that is read from the source. Readers copy the bytes that have arrived. If the
// block cannot be stored, it is kept until others need the memory.
//
// All fields are guarded by state.mu, except sum, which belongs to the stream that fetches the
// block. The first filled bytes of buf do not change any more.
type fetch struct {
	index   int64
	buf     []byte // allocated when the fetch starts
	filled  int
	sum     uint32 // the checksum of the first filled bytes
	err     error
	ended   bool // it has failed with err, or all bytes have arrived
	lost    bool // whether it no longer belongs to an object
	ahead   bool // no reader has requested it yet
	waiting int  // waiting readers
	refs    int  // readers that are copying, and the stream
	wake    chan struct{}
	kept    *list.Element // in state.kept
}

// progress returns a channel that is closed when more bytes have arrived. The caller holds mu.
func (t *fetch) progress() chan struct{} {
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// advance wakes the waiting readers. The caller holds mu.
func (t *fetch) advance() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// A stream fetches blocks of an object one after the other.
type stream struct {
	at    int64     // mu: the block that it is fetching; at the beginning, the block before its first
	src   *origin   // set only by the stream itself; other goroutines read it with mu held
	piece int       // number of bytes that it reads at once
	asked time.Time // time of its last request to the source
}

// lose removes a fetch from its object. The caller holds mu.
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

// recycle frees the memory of a fetch that nobody needs. The caller holds mu.
func (c *state) recycle(t *fetch) {
	if t.buf == nil || t.refs > 0 {
		return
	}
	if !t.lost {
		if t.kept != nil {
			c.room.Broadcast() // the fetch can be dropped now
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

// maxFetches is how many blocks of all files are fetched at the same time. Each source may use its
// share of them.
const maxFetches = 64

// share returns how many blocks of one source may be fetched at the same time, so that a source
// that does not answer leaves memory for the others. The caller holds mu.
func (c *state) share() int {
	return max(1, min(maxFetches, int(c.cfg.Memory/blockSize))/max(1, c.upstreams))
}

// takeMemory waits until there is memory for a fetch and its source has not used up its share. Then
// it takes both. It returns false if ctx ends first.
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
	if t.buf != nil { // another stream had begun the fetch and left it
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

// dropKept drops the block that was kept in memory for the longest time. The caller holds mu.
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

// A keptFetch is a block in memory that could not be stored.
type keptFetch struct {
	o *object
	t *fetch
}

// readable reports whether the object can be read without opening it at the source first. The
// caller holds mu.
func (o *object) readable() bool {
	return o.complete() || len(o.idle) > 0 || len(o.streams) > 0
}

// lastUse returns when one of the blocks was last used. The caller holds mu.
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
