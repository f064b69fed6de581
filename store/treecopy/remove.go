package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"
)

// A remover deletes the entries that were chosen for deletion.
type remover struct {
	*extras
	reach sync.Map // results of the method reached, by the name of the directory
}

// removeAll deletes the files and symbolic links first, and then the directories, the deepest ones
// first.
func (r *remover) removeAll() {
	var files []*extra
	dirs := make([][]*extra, len(r.toDelete))
	for i, level := range r.toDelete {
		for _, x := range level {
			switch {
			case x.keep:
			case x.info.IsDir():
				dirs[i] = append(dirs[i], x)
			default:
				files = append(files, x)
			}
		}
	}
	r.removeEach(files, r.to.Remove)
	for _, level := range slices.Backward(dirs) {
		r.removeEach(level, r.removeDir)
	}
}

// reached returns an error if a directory, or one above it, has been replaced by a symbolic link,
// because nothing may be deleted through a link. The result is remembered, so each directory is
// looked up about once.
func (r *remover) reached(dir string) error {
	if dir == r.top.to || r.to.can.ImpliedDirs {
		return nil
	}
	if known, ok := r.reach.Load(dir); ok {
		err, _ := known.(error)
		return err
	}
	err := r.reached(path.Dir(dir))
	if err == nil {
		var fi fs.FileInfo
		if fi, err = r.to.Lstat(r.ctx, dir); err == nil && !fi.IsDir() {
			err = inTheWay(fi)
		}
	}
	r.reach.Store(dir, err)
	return err
}

// removeEach calls the function remove for each entry of list, several at a time. An entry that no
// longer exists counts as deleted.
func (r *remover) removeEach(list []*extra, remove func(ctx context.Context, name string) error) {
	inParallel(len(list), func(i int) {
		if r.ctx.Err() != nil {
			return
		}
		x := list[i]
		err := r.reached(path.Dir(x.name))
		if err == nil && !r.opts.DryRun {
			err = remove(r.ctx, x.name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.report.failed(x.item, err)
			return
		}
		r.report.ended(x.item, Outcome{What: Deleted})
	})
}

// removeDir deletes a directory. If only leftovers of earlier copies are in it, it deletes these
// too.
func (r *remover) removeDir(ctx context.Context, name string) error {
	err := r.to.RemoveDir(ctx, name)
	if tidy := r.to.can.RemoveLeftovers; tidy != nil && errors.Is(err, fs.ErrExist) && tidy(ctx, name) == nil {
		err = r.to.RemoveDir(ctx, name)
	}
	return err
}
