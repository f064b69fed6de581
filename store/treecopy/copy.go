package treecopy

import "context"

// Copy copies what j says, and returns when all is done or ctx has ended: then
// what was under way is gone, or kept for Continue, and nothing half has a name.
//
// A nil error says that everything was copied or skipped as it should be. An
// [*IncompleteError] says that something was not. Any other error means that
// the copy did not begin, or that ctx has ended, or that an error was
// Options.Fatal.
func Copy(ctx context.Context, j Job) (Result, error) {
	return Result{}, nil
}
