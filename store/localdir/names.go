package localdir

import (
	"context"
	"io/fs"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store/internal/rules"
)

// isTemp reports whether the last element of name is that of an upload under way, or
// might be for a file system.
func isTemp(name string) bool {
	return tempname.May(name, tempname.Part, tempname.Keep, tempname.Mark)
}

// checkOld returns an error if name cannot be that of something that exists,
// as far as callers may see.
func checkOld(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = fs.ErrNotExist
	}
	return err
}

// checkNew returns an error if nothing may be given the name.
func checkNew(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = rules.ErrReserved
	}
	return err
}

// checkMovable is checkOld for what shall not be the root.
func checkMovable(ctx context.Context, name string) error {
	err := checkOld(ctx, name)
	if err == nil && name == "." {
		err = rules.ErrRoot
	}
	return err
}
