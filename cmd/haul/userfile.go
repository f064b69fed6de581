package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/logins"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/users"
)

// find returns the user `name` of the users file.
func (f *usersFlag) find(name string) (users.User, error) {
	d, path, err := f.open()
	if err != nil {
		return users.User{}, err
	}
	u, ok := d.User(name)
	if !ok {
		return u, fmt.Errorf("there is no user %q in %s; \"haul user add\" adds one", name, path)
	}
	return u, nil
}

// A usersFlag is the flag that names the users file.
type usersFlag struct{ name string }

func (f *usersFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "users", "", "use this users `FILE` (default: "+settings.UsersPlaces+")")
}

// path returns the path of the users file: the value of the flag, or otherwise the default path.
func (f *usersFlag) path() (string, error) {
	if f.name != "" {
		return f.name, nil
	}
	return settings.DefaultUsersFile()
}

// change makes cmd a command that changes the users file. The command calls run with the path of
// that file.
func (f *usersFlag) change(cmd *cobra.Command, run func(cmd *cobra.Command, path string, args []string) error) {
	f.add(cmd)
	cmd.ValidArgsFunction = f.complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := f.path()
		if err != nil {
			return err
		}
		return run(cmd, path, args)
	}
}

// open loads the users file, which must exist. It also returns the path of the file.
func (f *usersFlag) open() (*users.Directory, string, error) {
	path, err := f.path()
	if err != nil {
		return nil, "", err
	}
	d, err := logins.OpenUsersFile(path)
	return d, path, err
}

// complete lists the names of all users, with which the shell completes an argument.
func (f *usersFlag) complete(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	d, _, err := f.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return d.Names(), cobra.ShellCompDirectiveNoFileComp
}

// explainUsers adds advice to an error from changing the users file at path.
func explainUsers(err error, path string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; run it as a user who may write %s and its directory, or name another file with --users", err, path)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w; name another file with --users", err)
	}
	return err
}

// makeUsersDir creates the directory of the default users file. If the user has named the file, its
// directory must exist, because the name may be a mistake.
func makeUsersDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return failure.Local.Errorf("make the directory of the users file: %w; name another place with --users FILE", err)
	}
	return nil
}
