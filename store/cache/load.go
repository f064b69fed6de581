package cache

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
)

var errNoRoom = errors.New("its size cannot be brought below the bound")

// load finds out which blocks are in the directory, which this process has locked, and removes all
// files that are not part of the cache.
func (c *Cache) load(ctx context.Context) error {
	if _, err := c.disk.local.Sweep(ctx); err != nil {
		return err
	}
	held := int64(baseCost)
	found := map[string]identity{}
	all := map[string][]foundBlock{}
	err := c.disk.eachObject(ctx, func(dir string, i identity, err error) error {
		blocks, err2 := c.disk.take(ctx, dir, i, err)
		if err2 != nil || len(blocks) == 0 {
			return err2
		}
		found[dir], all[dir] = i, blocks
		held += objectCost
		return nil
	}, c.disk.objects.RemoveAll)
	if err != nil {
		return err
	}
	c.mu.Lock()
	var taken []*block
	for dir, i := range found {
		o := c.object(i)
		o.onDisk = true
		for _, b := range all[dir] {
			if o.blocks[b.index] == nil {
				one := &block{o: o, index: b.index, sum: b.sum, size: int(b.size), used: b.at}
				o.blocks[b.index] = one
				taken = append(taken, one)
				held += one.cost()
			}
		}
	}
	slices.SortFunc(taken, func(a, b *block) int { return a.used.Compare(b.used) })
	for _, b := range taken {
		b.place = c.blocks.PushFront(b)
	}
	c.held = held
	c.writing = true
	for _, s := range c.fronts { // fronts exist already if this process has waited for another process
		s.leadToFound()
	}
	c.mu.Unlock()
	if !c.reserve(0) {
		return errNoRoom
	}
	return nil
}

// take returns the valid blocks in an object's directory, and removes everything else. i and
// infoErr are the results of reading the info file. If no valid block is left, it removes the
// directory.
func (d *disk) take(ctx context.Context, dir string, i identity, infoErr error) ([]foundBlock, error) {
	found, others, err := d.blocks(ctx, dir)
	if err != nil {
		return nil, err
	}
	whole := infoErr == nil && !strings.HasPrefix(dir, doomedPrefix)
	kept := map[int64]bool{}
	found = slices.DeleteFunc(found, func(b foundBlock) bool {
		if whole && !kept[b.index] && b.index < blocksOf(i.size) && b.size == int64(blockLen(i.size, b.index)) {
			kept[b.index] = true
			return false
		}
		others = append(others, b.name())
		return true
	})
	for _, name := range others {
		if err := d.objects.RemoveAll(path.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, d.removeObject(dir)
}
