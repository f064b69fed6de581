package sftpd

import (
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/logins"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/users"
)

// A oneTimeUser is the only user of a server without a users file. Its password is valid for this
// run only.
type oneTimeUser struct {
	password   string
	access     users.Access
	createOnly bool // the user may add files, but must not replace or change existing ones
}

// mayOnlyCreate reports whether the user may add files, but must not change existing ones. With a
// users file u is nil, and the file defines the access of each user.
func (u *oneTimeUser) mayOnlyCreate() bool { return u != nil && u.createOnly }

// mayDo describes the user's rights in words.
func (u *oneTimeUser) mayDo() string {
	switch {
	case u.access == users.ReadOnly:
		return "clients may read; --upload create lets them add files, --upload overwrite change and remove all"
	case u.createOnly:
		return "clients may read, and add files; they cannot change or remove files that were there before"
	}
	return "clients may read, write, rename and remove all files"
}

// openSessions loads the users file. Without a users file there is a single user, who may read, and
// may write if --upload allows it.
func openSessions(cfg *settings.Config, owners []int) (*logins.Sessions, *oneTimeUser, error) {
	file, err := cfg.SFTP.UsersFile()
	if err != nil {
		return nil, nil, err
	}
	policy := cfg.Files.Upload
	switch {
	case file == "":
		u := &oneTimeUser{access: users.ReadOnly, createOnly: policy == site.UploadCreate}
		if u.createOnly || policy == site.UploadOverwrite {
			u.access = users.Full
		}
		var dir *users.Directory
		dir, u.password, err = users.OneTime(u.access)
		return &logins.Sessions{Users: dir}, u, err
	case policy != site.UploadNone && !cfg.ServesAnybody():
		return nil, nil, failure.Mistake("upload", "%s is for those without an account, and the users in %s have their access there; \"haul user set NAME --access WHAT\" changes it", failure.Flag("upload"), file)
	}
	dir, err := logins.OpenUsersFile(file, owners...)
	switch {
	case err != nil && cfg.SFTP.Users == "":
		return nil, nil, failure.Local.Errorf("%w; that is where users are looked for without %s FILE", err, failure.Flag("users"))
	case err != nil:
		return nil, nil, err
	case len(dir.Names()) == 0:
		return nil, nil, failure.Mistake("users", "the users file %s has no users, so nobody could log in; \"haul user add NAME --users %s\" adds one", file, file)
	}
	return &logins.Sessions{Users: dir, File: file}, nil, nil
}
