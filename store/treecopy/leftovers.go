package treecopy

import (
	"context"
	"strings"
)

// sweepsAtOnce is how many directories are swept besides all else.
const sweepsAtOnce = 8

// A Sweeper is a [store.Tree] that can remove from a directory what uploads left
// there whose process died.
type Sweeper interface {
	SweepDir(ctx context.Context, dir string) error
}

// sweep removes what earlier copies left in a directory of the target, besides
// all else. That it cannot is no matter of this copy.
func (c *copier) sweep(dir string) {
	s, ok := c.to.(Sweeper)
	if !ok || c.opts.DryRun {
		return
	}
	select {
	case c.sweepSlots <- struct{}{}:
		c.sweeps.Go(func() {
			_ = s.SweepDir(c.ctx, dir)
			<-c.sweepSlots
		})
	default:
		_ = s.SweepDir(c.ctx, dir)
	}
}

// Files that are under way, or were left behind, have names of this prefix, so many
// letters and digits, and a suffix that says what they are.
const (
	leftoverPrefix = ".haul-"
	leftoverRandom = 26 // of base 32: 130 bits
)

// isLeftover reports whether an entry has the name of a file that haul, here or at
// the other end, has under way or has left behind. It belongs to no tree.
func isLeftover(name string) bool {
	s, ok := strings.CutPrefix(name, leftoverPrefix)
	if !ok || len(s) < leftoverRandom || strings.Trim(s[:leftoverRandom], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return false
	}
	switch s[leftoverRandom:] {
	case ".part", ".keep", ".mark", ".upload", ".record", probeSuffix:
		return true
	}
	return false
}
