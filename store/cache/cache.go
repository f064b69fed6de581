// Package cache is a store in front of another one, such as a web server or an SFTP
// server. It keeps what was read in a directory of this machine, up to a size.
//
//	c, err := cache.Open(cache.Config{Dir: "/var/cache/haul", Size: 20 << 30})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	files := c.Store("https://mirror.example/boot/", source)
//
// One Cache serves several sources. All readers that want the same bytes at once share one
// fetch, and get each byte as it comes. See [Cache.Store] for what the store promises, and
// [Config] for the bounds.
package cache

import (
	"log/slog"
	"time"
)

// The defaults of [Config], and the least it takes.
const (
	DefaultFresh  = 10 * time.Second
	DefaultAbsent = 5 * time.Second
	DefaultMemory = 64 << 20

	// MinSize is the smallest Config.Size, and MinMemory the smallest Config.Memory.
	MinSize   = 64 << 20
	MinMemory = 8 << 20
)

// Config says where a [Cache] keeps its blocks, and how long it believes them.
type Config struct {
	// Dir is the directory. It is made if it is missing, in a directory that exists. One
	// with anything in it that is no cache is refused.
	Dir string

	// Size is the most bytes that the directory takes on the disk at any moment, with the
	// blocks that are being stored. At least MinSize.
	Size int64

	// Fresh is how long the cache answers for a file without asking the source whether it
	// has changed. 0 means DefaultFresh; below 0 the source is asked at each Open.
	Fresh time.Duration

	// Stale is for how long after that the cache answers for a file while the source
	// cannot be reached. 0 means not at all.
	Stale time.Duration

	// Absent is for how long the cache remembers that a name does not exist. 0 means
	// DefaultAbsent; below 0 it does not.
	Absent time.Duration

	// Memory is the most bytes of blocks that are being fetched, or that could not be
	// stored. 0 means DefaultMemory; the least is MinMemory.
	Memory int64

	// Wait is for a server that takes over from another one, which may still hold the
	// directory. Open then succeeds at once: until the other process calls
	// [Cache.Release], or ends, nothing is read from the directory or written to it, and
	// all is fetched. Without Wait, Open fails with ErrInUse.
	Wait bool

	// Log gets a line for each kind of trouble, at most one in ten seconds. nil: no log.
	Log *slog.Logger
}

// Stats are counters since [Open], and the state now.
type Stats struct {
	// A reader that comes to a block counts once: as a hit if the block was there, in the
	// directory or in memory; else as a miss.
	Hits, Misses uint64

	BytesServed  uint64 // bytes that readers got
	BytesFetched uint64 // bytes that came from sources

	Asks         uint64 // times that a source was asked to open or to describe a file
	Fetches      uint64 // blocks whose fetch has begun
	FetchErrors  uint64 // fetches that have failed, but for those that nobody waited for any more
	SourceErrors uint64 // asks that have failed, but for names that do not exist
	Stale        uint64 // times that a file was opened or described although the source could not be asked

	Corrupt    uint64 // blocks whose checksum was wrong, or whose size was
	DiskErrors uint64 // times that the directory could not be read or written
	Unstored   uint64 // blocks that were served and not stored, for want of room or because of the disk
	Evictions  uint64 // blocks removed to make room

	Size     int64         // Config.Size
	Held     int64         // bytes of the directory, with room set aside for blocks to store
	Memory   int64         // bytes of blocks in memory
	Objects  int           // versions of files that have blocks, or that a name leads to
	Blocks   int           // in the directory
	Fetching int           // blocks being fetched
	Oldest   time.Duration // since the last use of the block that goes next
	Writing  bool          // this process holds the directory
}
