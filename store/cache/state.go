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

// A state is everything that the readers of a cache share: fetches from the sources, and blocks on
// the disk. One lock, mu, guards most of it.
type state struct {
	cfg      Config
	disk     *disk
	ctx      context.Context // context that ends when the cache is closed
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // all goroutines that the cache has started
	isClosed atomic.Bool
	noTries  atomic.Bool // the file system cannot report which data is in memory
	count    counters
	troubles
	times

	// storing is read-locked while a block is stored. It is locked while an object's directory is
	// renamed, and while the cache is released. Lock order: storing, then object.saving, then mu.
	storing sync.RWMutex

	mu sync.Mutex
	// The fields below are guarded by mu. room is signalled when memory becomes free.
	room      *sync.Cond
	writing   bool               // this process has locked and loaded the directory; see load and Release
	objects   map[string]*object // all objects, by identity.id()
	blocks    *list.List         // *block values that are stored, the most recently used first
	open      *list.List         // *block values whose file is open, the most recently used first
	kept      *list.List         // keptFetch values, the oldest first
	held      int64              // bytes of the directory that are used or reserved
	memory    int64              // bytes of memory used by fetches
	running   int                // number of fetches in progress
	upstreams int                // number of calls of Cache.Store
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

// An object is one version of a file. It stays in state.objects as long as it has blocks or
// readers, or a name is linked to it.
type object struct {
	identity
	c    *state
	from *upstream

	saving  sync.Mutex  // held while the object's directory is created or removed; taken before state.mu
	opening sync.Mutex  // held while live is opened; taken before state.mu
	written atomic.Bool // the file was written in place through the cache, so readers now read from the source

	// All fields below are guarded by state.mu.

	info    fs.FileInfo // description by the source; nil until the source is asked
	dir     string      // name of the object's directory, which exists if onDisk is set
	onDisk  bool        // the directory dir exists
	gone    bool        // this version is outdated: when its last reader leaves, its blocks are removed
	named   bool        // an entry of a name is linked to this object
	suspect bool        // a fetch failed: before the next reader uses this version, the source is asked again
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

	// refs is how many readers use the block, including a goroutine that opens the block's file;
	// increased only with mu held.
	refs    atomic.Int32
	dropped atomic.Bool // detach has removed the block from all lists; set with mu held
	deleted atomic.Bool // delete was called: further calls do nothing

	// All fields below are guarded by state.mu.

	file store.File // nil if the file is not open
	try  store.TryReader
	// lent says that a reader uses the offset of file, so other readers open the block's file again:
	// see borrow.
	lent    bool
	checked bool // the checksum was verified, or this process has written the block
	// seen is the identity of the block's file when it was verified or written; zero if the system
	// provides none.
	seen    store.Identity
	opening chan struct{} // closed when file is open, or the block turns out to be unusable
	used    time.Time
	place   *list.Element // this block's element in state.blocks
	opened  *list.Element // this block's element in state.open
}

func (b *block) cost() int64 { return blockCost(b.size) }

func (b *block) name() string { return blockName(b.index, b.sum) }

// ready reports whether the block can be read: its file is open, and its checksum was right when it
// was last verified. The caller holds state.mu.
func (b *block) ready() bool { return b.file != nil && b.checked }

// newObject returns an object without blocks. The caller holds mu.
func (c *state) newObject(i identity) *object {
	return &object{identity: i, c: c, dir: i.id(), blocks: map[int64]*block{}, fetching: newFetching()}
}

// object returns the object with the given identity, and creates it if necessary. The caller holds
// mu.
func (c *state) object(i identity) *object {
	id := i.id()
	o := c.objects[id]
	if o == nil {
		o = c.newObject(i)
		c.objects[id] = o
	}
	return o
}

// forget removes an object that has no blocks, no readers and no name. The caller holds mu.
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

// complete reports whether all blocks are on the disk or in memory. Blocks in memory are about to
// be stored, or could not be stored. The caller holds mu.
func (o *object) complete() bool {
	there := int64(len(o.blocks))
	for _, t := range o.fetches {
		if t.buf != nil && t.filled == len(t.buf) && o.blocks[t.index] == nil {
			there++
		}
	}
	return there == blocksOf(o.size)
}

// fetching is the part of an object that deals with its source. It is guarded by state.mu.
type fetching struct {
	fetches map[int64]*fetch // by block: fetches that are queued or in progress, or whose data is kept in memory
	queue   []*fetch
	streams []*stream
	idle    []*origin
	live    *origin         // open file of the source for readers, after the file was written in place
	single  bool            // the source could not open this version again, so no further streams are started
	ctx     context.Context // context that ends when the last reader leaves
	cancel  context.CancelFunc
}

func newFetching() fetching { return fetching{fetches: map[int64]*fetch{}} }

// A fetch is a block that is being read from the source. Readers copy bytes from it as they arrive.
// If the block cannot be stored, the fetch stays in memory until others need the memory.
//
// All fields are guarded by state.mu, except for sum, which only the fetching stream uses. The
// first `filled` bytes of buf do not change any more.
type fetch struct {
	index   int64
	buf     []byte // data of the block; allocated when the fetch starts
	filled  int
	sum     uint32 // checksum of the bytes that have arrived
	err     error
	ended   bool // the fetch failed with err, or all bytes have arrived
	lost    bool // the fetch was removed from its object
	ahead   bool // no reader has requested the block yet
	waiting int  // how many readers wait for bytes of this fetch
	refs    int  // how many readers use this fetch, plus one while a stream fetches the block
	wake    chan struct{}
	kept    *list.Element // this fetch's element in state.kept
}

// progress returns a channel that will be closed when more bytes arrive, or the fetch ends. The
// caller holds mu.
func (t *fetch) progress() chan struct{} {
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// advance wakes the readers that wait for this fetch. The caller holds mu.
func (t *fetch) advance() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// A stream is a goroutine that fetches blocks of an object, one after the other.
type stream struct {
	// at is the index of the block that the stream fetches. Before the first fetch, it is one less
	// than the index of the first block. It is guarded by mu.
	at int64
	// src is the open file of the source. Only the stream itself sets it; other goroutines read it
	// with mu held.
	src   *origin
	piece int       // number of bytes to read at once
	asked time.Time // when the stream last began to open the source or to read from it
}

// lose removes a fetch from its object, and frees its memory if nobody uses it. The caller holds
// mu.
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

// recycle frees the memory of a fetch if it was removed from its object and nobody uses it. The
// caller holds mu.
func (c *state) recycle(t *fetch) {
	if t.buf == nil || t.refs > 0 {
		return
	}
	if !t.lost {
		if t.kept != nil {
			c.room.Broadcast() // dropKept can free this fetch now
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

// maxFetches is the largest number of blocks, of all files, that are fetched at the same time. Each
// source may use an equal share of this number.
const maxFetches = 64

// share returns how many blocks of one source may be fetched at the same time. The number is
// limited so that a source that does not answer leaves memory for the other sources. The caller
// holds mu.
func (c *state) share() int {
	return max(1, min(maxFetches, int(c.cfg.Memory/blockSize))/max(1, c.upstreams))
}

// takeMemory waits until there is memory for fetch t, and until its source may fetch another block.
// It then allocates the memory, and counts the fetch as running. It returns false if ctx ends
// first.
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
	if t.buf != nil { // another stream began the fetch and left it to this one
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

// dropKept frees the oldest fetch in state.kept that nobody uses, and reports whether there was
// one. The caller holds mu.
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

// A keptFetch is a fetched block that stays in memory because it could not be stored.
type keptFetch struct {
	o *object
	t *fetch
}

// readable reports whether the object can be read without first opening the file at the source. The
// caller holds mu.
func (o *object) readable() bool {
	return o.complete() || len(o.idle) > 0 || len(o.streams) > 0
}

// lastUse returns the time at which a block of the object was last used. The caller holds mu.
func (o *object) lastUse() (last time.Time) {
	for _, b := range o.blocks {
		if b.used.After(last) {
			last = b.used
		}
	}
	return last
}

// start runs task in a goroutine, unless the cache is closed. The caller holds mu.
func (c *state) start(task func()) {
	if !c.isClosed.Load() {
		c.tasks.Go(task)
	}
}
