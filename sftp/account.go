package sftp

import (
	"context"
	"errors"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// An Account says which files a user has access to after the login, and with which rights and
// limits.
type Account struct {
	// User names the account. Connections of the same User share the Rate and see each other's
	// hidden uploads, so they must have the same files. If it is empty, the account has the name
	// that was given at login.
	User string

	Tree   store.Tree   // the files; the user sees its root as /
	Dir    string       // the directory in which the user begins, below / and slash-separated; "" means /
	Access users.Access // the user's rights; zero means all
	Rate   int64        // bytes a second each way; 0 means no limit

	// Home returns the home directory of a user, as the client sees it, for "~" and the
	// home-directory extension. It returns false for unknown users. Without Home, the account's own
	// user has the home Dir, and other users have none.
	Home func(user string) (dir string, ok bool)

	// Resolve returns an absolute path without symbolic links and "..", as realpath(3) does, but
	// the last element need not exist. The server uses it to answer REALPATH and to resolve ".."
	// after a link. Without it, paths are taken as text.
	Resolve func(path string) (string, error)

	// CreateOnly reduces full access: the user may not change or remove files that existed before
	// the connection. See [store.CreateOnly].
	CreateOnly bool

	// Refused are the names of requests that are answered with PERMISSION_DENIED, as [Requests]
	// returns them. Any other name fails the login. Refused extensions are not
	// announced.
	Refused []string

	// Hidden makes uploads invisible until they are complete. A file that is opened for writing
	// only, and created or truncated, is published when it is closed, and discarded if the
	// connection ends before. Meanwhile its user can stat and change it by its name, and open it
	// again to write to it from several channels and connections. Any other use of the name, such
	// as a rename, publishes the file at once, and so does a copy-data of a whole file.
	Hidden bool

	// Life, if set, ends the connection when it ends. Its cause is the error of the connection and
	// of the files that were open.
	Life context.Context

	// Close, if set, is called when the connection is over.
	Close func()
}

// check returns an error if the account is not valid.
func (a *Account) check() error {
	if a == nil || a.Tree == nil {
		return errors.New("the account has no files")
	}
	_, err := requestsNamed(a.Refused)
	return err
}

// addsOnly reports whether the account may change and remove only files that its connection has
// made. Such accounts are often shared.
func (a *Account) addsOnly() bool { return a.Access == users.UploadOnly || a.CreateOnly }
