package failure_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// An error has its kind below other errors too, and keeps its text and its cause.
func TestKinds(t *testing.T) {
	local := failure.Local.Errorf("read f: %w", fs.ErrNotExist)
	err := errors.Join(errors.New("other"), failure.Reword("put f", fmt.Errorf("again: %w", failure.Remote.Wrap(local))))
	for kind, want := range map[failure.Kind]bool{failure.Local: true, failure.Remote: true, failure.Usage: false} {
		if got := errors.Is(err, kind); got != want {
			t.Errorf("is of kind %q: %v", kind, got)
		}
	}
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "other\nput f" {
		t.Errorf("%q", err)
	}
	if failure.Local.Wrap(nil) != nil {
		t.Error("no error is an error")
	}
}

// Joined has the parts of errors.Join alone.
func TestJoined(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	if got := failure.Joined(errors.Join(a, b)); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("%v", got)
	}
	if got := failure.Joined(fmt.Errorf("%w, %w", a, b)); got != nil {
		t.Errorf("of other errors: %v", got)
	}
}
