package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// WarnUnwritable warns about directories in which uploads cannot be written. Call it when the
// process runs as its final user.
func WarnUnwritable(protocol string, dirs []string, say SayFunc) {
	for _, dir := range dirs {
		if err := privilege.CheckWritable(dir); err != nil {
			say(slog.LevelWarn, protocol+": uploads will fail, as the user that haul runs as cannot write to the directory; change its owner or mode, or leave out --upload",
				slog.String("directory", dir), slog.String("error", err.Error()))
		}
	}
}

// sweepEvery is the time between two searches for leftovers of interrupted uploads.
const sweepEvery = 24 * time.Hour

// SweepOften calls sweep at once and then every sweepEvery, until ctx ends. A single sweep at the
// start would not be enough, because it leaves recent resumable uploads in place.
func SweepOften(ctx context.Context, say SayFunc, sweep func() (removed int, err error)) {
	for {
		n, err := sweep()
		if n > 0 {
			say(slog.LevelInfo, "removed unfinished uploads of an earlier run", slog.Int("files", n))
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			say(slog.LevelWarn, "looking for unfinished uploads of an earlier run", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}
