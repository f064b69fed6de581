package treecopy

import (
	"context"
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
