package cache

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/store"
)

// An Object describes one version of a file, and the part of it that is cached.
type Object struct {
	Source  string // the location given to [Cache.Store]
	Name    string
	Version string // string that distinguishes this version of the file
	Size    int64  // size of the file in bytes
	Blocks  int    // how many blocks of the file are stored
	Of      int64  // number of blocks in the whole file
	Bytes   int64  // number of stored bytes
}

// List calls the function each for every object of the cache in dir, in no particular order. It
// calls the function foreign for every file and directory in dir that the cache did not create,
// with its name relative to dir. The parameter swept of foreign means that the entry is among the
// blocks, so a server that uses the cache removes it at the start; until then the entry does not
// count toward the size. List, [Verify] and [Clear] never remove such files. The cache may be in
// use.
func List(ctx context.Context, dir string, each func(Object) error, foreign func(name string, swept bool)) error {
	return walk(ctx, dir, func(_ *disk, _ string, o Object, _ []foundBlock) error { return each(o) }, foreign)
}

// walk calls f for each object of the cache in dir that has blocks. It calls the function foreign
// for files and directories that the cache did not create, as List does.
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
		case err != nil || strings.HasPrefix(at, doomedPrefix): // the directory is being created or removed
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

// A Result holds the counts of [Verify] or [Clear].
type Result struct {
	Objects int64
	Blocks  int64
	Bytes   int64
	Corrupt int64 // blocks with wrong content; Verify has removed them
	Foreign int64 // files and directories that the cache did not create
}

// Verify reads all blocks of the cache in dir and removes corrupt ones. It calls the function bad
// for each corrupt block, and the function foreign as List does. The cache may be in use.
func Verify(ctx context.Context, dir string, bad func(o Object, block int64, err error), foreign func(name string, swept bool)) (r Result, err error) {
	err = walk(ctx, dir, func(d *disk, at string, o Object, blocks []foundBlock) error {
		r.Objects++
		for _, b := range blocks {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := d.verify(at, o, b)
			if errors.Is(err, fs.ErrNotExist) { // the block was removed meanwhile
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

// verify reads a block. It returns an error if the content is wrong, or if the block cannot belong
// to object o.
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

// Clear removes everything that the cache in dir has stored. It calls the function foreign as List
// does, for the files that remain. The cache may be in use: then the server continues to use the
// blocks that it has open, and fetches the others again. The server keeps counting the removed
// blocks until it notices that they are missing, or would have removed them to make room.
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
		return r, err // a server is using the directories, so leave them
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

// empty removes an object's directory with everything in it, unless it contains files that the
// cache did not create.
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
