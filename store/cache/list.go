package cache

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/store"
)

// An Object describes the cached part of one version of a file.
type Object struct {
	Source  string // as given to [Cache.Store]
	Name    string
	Version string // the string that distinguishes the version
	Size    int64  // of the file, in bytes
	Blocks  int    // number of stored blocks
	Of      int64  // number of blocks in the whole file
	Bytes   int64  // number of stored bytes
}

// List calls each for every object of the cache in dir, in no order. It calls foreign with the
// name, within dir, of every file or directory that the cache did not create. A server that uses the
// cache removes those that are swept when it starts: they are among the blocks, and do not count
// against the size. List, [Verify] and [Clear] never remove them. The cache may be in use.
func List(ctx context.Context, dir string, each func(Object) error, foreign func(name string, swept bool)) error {
	return walk(ctx, dir, func(_ *disk, _ string, o Object, _ []foundBlock) error { return each(o) }, foreign)
}

// walk calls f for each object of the cache in dir that has blocks. It calls foreign with the names
// in dir that the cache did not create.
func walk(ctx context.Context, dir string, f func(d *disk, at string, o Object, blocks []foundBlock) error, foreign func(name string, swept bool)) error {
	d, err := openDisk(dir, false)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.foreign(func(name string) { foreign(name, false) }); err != nil {
		return err
	}
	return d.eachObject(ctx, func(at string, i identity, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !isObjectName(at):
			foreign(path.Join(objectsName, at), true)
			return nil
		case err != nil || strings.HasPrefix(at, doomedPrefix): // being created or removed
			return nil
		}
		blocks, others, err := d.blocks(ctx, at)
		for _, name := range others {
			foreign(path.Join(objectsName, at, name), true)
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(blocks) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		o := Object{Source: i.source, Name: i.name, Version: i.version, Size: i.size, Of: blocksOf(i.size), Blocks: len(blocks)}
		for _, b := range blocks {
			o.Bytes += b.size
		}
		return f(d, at, o, blocks)
	}, func(name string) error {
		foreign(path.Join(objectsName, name), true)
		return nil
	})
}

// A Result holds what [Verify] or [Clear] has counted.
type Result struct {
	Objects int64
	Blocks  int64
	Bytes   int64
	Corrupt int64 // blocks with wrong content, which were removed
	Foreign int64 // files and directories that the cache did not create
}

// Verify reads all blocks of the cache in dir and removes those that are corrupt. It calls bad for
// each of them, and foreign like List. The cache may be in use.
func Verify(ctx context.Context, dir string, bad func(o Object, block int64, err error), foreign func(name string, swept bool)) (r Result, err error) {
	err = walk(ctx, dir, func(d *disk, at string, o Object, blocks []foundBlock) error {
		r.Objects++
		for _, b := range blocks {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := d.verify(at, o, b)
			if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
				continue
			}
			r.Blocks++
			r.Bytes += b.size
			if err == nil {
				continue
			}
			r.Corrupt++
			bad(o, b.index, err)
			if err := d.remove(at, b.name()); err != nil {
				return err
			}
		}
		return nil
	}, func(name string, swept bool) {
		r.Foreign++
		foreign(name, swept)
	})
	return r, err
}

// verify reads a block. It returns an error if the content is not what was stored.
func (d *disk) verify(at string, o Object, b foundBlock) error {
	if b.index >= o.Of {
		return errBadBlock
	}
	var f store.File
	f, err := d.openBlock(at, b.index, b.sum)
	if err != nil {
		return err
	}
	defer f.Close()
	return checkBlock(f, blockLen(o.Size, b.index), b.sum)
}

// Clear removes everything that the cache in dir has stored, and calls foreign like List for files
// that remain. The cache may be in use: then the server continues with the blocks that it has open,
// and fetches the others again. It still counts the removed blocks until it would have removed them
// itself.
func Clear(ctx context.Context, dir string, foreign func(name string, swept bool)) (r Result, err error) {
	err = walk(ctx, dir, func(d *disk, at string, _ Object, blocks []foundBlock) error {
		r.Objects++
		for _, b := range blocks {
			if err := d.remove(at, b.name()); err != nil {
				return err
			}
			r.Blocks++
			r.Bytes += b.size
		}
		return nil
	}, func(name string, swept bool) {
		r.Foreign++
		foreign(name, swept)
	})
	if err != nil {
		return r, err
	}
	d, err := openDisk(dir, false)
	if err != nil {
		return r, err
	}
	defer d.close()
	if mine, err := d.lock(); err != nil || !mine {
		return r, err // a server is using the directories
	}
	if _, err := d.local.Sweep(ctx); err != nil {
		return r, err
	}
	return r, d.eachObject(ctx, func(at string, _ identity, _ error) error {
		if !isObjectName(at) {
			return nil
		}
		return d.empty(ctx, at)
	}, func(string) error { return nil })
}

// empty removes the directory of an object, except files that the cache did not create.
func (d *disk) empty(ctx context.Context, at string) error {
	blocks, others, err := d.blocks(ctx, at)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if err := d.remove(at, b.name()); err != nil {
			return err
		}
	}
	if len(others) > 0 {
		return nil
	}
	return d.removeObject(at)
}
