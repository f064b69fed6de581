package failure_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// An error has its kind even when other errors wrap it, and keeps its text and its cause.
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

// Joined returns only the parts of errors.Join.
func TestJoined(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	if got := failure.Joined(errors.Join(a, b)); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("%v", got)
	}
	if got := failure.Joined(fmt.Errorf("%w, %w", a, b)); got != nil {
		t.Errorf("of other errors: %v", got)
	}
}

// A message names its flags as requested, also in wrapped errors. Quoted commands and the texts of
// other errors stay unchanged.
func TestIn(t *testing.T) {
	inner := failure.Text("%s is empty", failure.Flag("users"))
	other := errors.New(`"haul user add --users F"`)
	err := failure.Mistake("sftp", "%s %q: %w; %w, or %s", failure.Flag("sftp"), "--map", inner, other, failure.Dirs)
	if want := `--sftp "--map": --users is empty; "haul user add --users F", or dirs`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	got := failure.In(err, func(f failure.Flag) string { return "the " + string(f) })
	if want := `the sftp "--map": the users is empty; "haul user add --users F", or the dirs`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := failure.In(failure.Listen.Wrap(errors.Join(inner, other)), failure.Flag.String); got != "--users is empty\n"+other.Error() {
		t.Errorf("joined errors are %s", got)
	}
	if all := failure.Flags(err); !slices.Equal(all, []failure.Flag{"sftp", "users", "dirs"}) {
		t.Errorf("it names %q", all)
	}
	if !errors.Is(err, other) || !errors.Is(err, failure.Usage) {
		t.Errorf("%v does not wrap its parts", err)
	}
}
