package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
)

// A directory that becomes the target itself exists as soon as the copy begins. With cp, running
// the same command again would put the source below that directory, but a second copy with Continue
// is meant to resume the first. To recognize this case, such a directory contains a checkpoint
// until everything is copied: an empty file whose name identifies the source of the directory.
//
// The directory has a temporary name until the checkpoint is in it. So, whenever the process is
// killed, the directory never has its final name without the checkpoint.

// checkpointPerm is the permissions of a checkpoint. Package sftpclient removes a file with such a
// name after a week, but only if it has exactly these permissions. So the checkpoint of a copy that
// is never resumed is removed, too.
const checkpointPerm = 0o600

// checkpointName returns the name of the checkpoint for a source. If `target` is not empty, it
// returns instead the temporary name of the directory that will be renamed to `target`.
func checkpointName(origin, source, target string) string {
	return tempname.New(tempname.Hash(fmt.Sprintf("haul tree\x00%q %q %q %q", who(), origin, source, target)), tempname.Record)
}

func (s *start) checkpoint() string { return checkpointName(s.origin, s.name, "") }

// checkpoints marks a directory that becomes the target, so that a later copy can recognize it as
// unfinished.
type checkpoints struct{ *task }

// find checks whether the target is an unfinished copy of the only source. If so, the source
// becomes the target again.
func (k *checkpoints) find(p *place, named int, starts []start) error {
	if !k.opts.Continue || k.to.can.ImpliedDirs || named != 1 || len(starts) != 1 || p.info == nil || !p.info.IsDir() {
		return nil
	}
	s := &starts[0]
	if !s.isDir() || p.below && !s.contents {
		return nil
	}
	fi, err := k.to.Lstat(k.ctx, path.Join(p.name, s.checkpoint()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("look whether the target is an unfinished copy: %w", err)
	case fi.Mode().IsRegular():
		p.exact, p.checkpoint = true, s.checkpoint()
	}
	return nil
}

// make makes the target directory. With Continue, it puts a checkpoint into it, so that another
// copy can resume this one, and returns the name of the checkpoint.
func (k *checkpoints) make(p *place, starts []start, perm fs.FileMode) (checkpoint string, err error) {
	if k.opts.Continue && p.exact {
		if err := k.makeWithCheckpoint(p.name, &starts[0], perm); err == nil {
			return starts[0].checkpoint(), nil
		}
		// This fails, for example, for a user who may only upload, and so cannot rename
		// directories. Such a user cannot resume anything anyway.
	}
	if err := k.to.Mkdir(k.ctx, p.name, perm); err != nil {
		return "", fmt.Errorf("make the target directory: %w", err)
	}
	return "", nil
}

// makeWithCheckpoint makes a directory that contains a checkpoint. If it fails, it leaves nothing
// behind.
func (k *checkpoints) makeWithCheckpoint(name string, s *start, perm fs.FileMode) error {
	aside := path.Join(path.Dir(name), checkpointName(s.origin, s.name, path.Base(name)))
	err := k.to.Mkdir(k.ctx, aside, perm)
	if errors.Is(err, fs.ErrExist) {
		// A process that was killed left this directory. Remove it. If other files are in it, it
		// stays, and the second call of Mkdir fails.
		k.remove(aside, s.checkpoint())
		err = k.to.Mkdir(k.ctx, aside, perm)
	}
	if err != nil {
		return err
	}
	h, err := k.to.OpenFile(k.ctx, path.Join(aside, s.checkpoint()), store.Access{Write: true, Create: true, Exclusive: true, Perm: checkpointPerm})
	if err == nil {
		err = h.Close()
	}
	if err == nil {
		err = k.to.Rename(k.ctx, aside, name, false)
	}
	if err != nil {
		k.remove(aside, s.checkpoint())
	}
	return err
}

// remove removes a directory and its checkpoint, even if the context has ended. If the directory
// has other entries, it stays.
func (k *checkpoints) remove(dir, checkpoint string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), removeTime)
	defer cancel()
	if checkpoint != "" {
		_ = k.whole.Remove(ctx, path.Join(dir, checkpoint))
	}
	_ = k.whole.RemoveDir(ctx, dir)
}

// renew sets the times of a checkpoint to now, so that it is not removed as an old one. A failure
// is ignored, because it does not affect this copy.
func (k *checkpoints) renew(checkpoint string) {
	now := time.Now()
	_ = k.to.SetAttr(k.ctx, checkpoint, store.Attr{AccessTime: now, ModTime: now}, false)
}

// end removes the checkpoint from d, if there is one and nothing has failed.
func (k *checkpoints) end(d *dir) {
	if d.checkpoint != "" && k.report.err(nil) == nil {
		// If this fails, the next copy resumes the directory and finds that everything is copied.
		_ = k.to.Remove(k.ctx, path.Join(d.to, d.checkpoint))
	}
}
