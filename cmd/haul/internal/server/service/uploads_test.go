package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Leftovers of uploads are removed repeatedly while the server runs, because resumable uploads
// expire meanwhile. Failures are logged.
func TestSweepOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), 7*24*time.Hour+time.Minute)
		defer end()
		var levels []slog.Level
		say := func(l slog.Level, _ string, _ ...slog.Attr) { levels = append(levels, l) }
		sweeps := 0
		SweepOften(ctx, say, func() (int, error) {
			switch sweeps++; sweeps {
			case 2:
				return 3, nil
			case 4:
				return 1, errors.New("a disk that is full of errors")
			case 5:
				return 0, context.Canceled
			}
			return 0, nil
		})
		if sweeps != 8 {
			t.Errorf("%d sweeps in a week, want one a day", sweeps)
		}
		if want := []slog.Level{slog.LevelInfo, slog.LevelInfo, slog.LevelWarn}; !slices.Equal(levels, want) {
			t.Errorf("told at %v, want %v", levels, want)
		}
	})
}
