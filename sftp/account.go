package sftp

import (
	"context"
	"errors"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// An Account says which files a user may use after the login, and with which rights and limits.
type Account struct {
	// User names the account. Connections with the same User share the Rate, and see each other's
	// hidden uploads, so they must have the same files. If User is empty, the account is named by
	// the user name of the login.
	User string

	Tree store.Tree // the files; the user sees the root of the tree as /
	// Dir is the directory in which the user starts after the login, slash-separated and relative
	// to the root of Tree; "" means the root.
	Dir    string
	Access users.Access // the user's rights; the zero value means full access
	Rate   int64        // bytes a second each way; 0 means no limit

	// Home returns the home directory of a user, as a path that the client can use. The server
	// calls it for paths that begin with "~" and for the home-directory extension. It returns false
	// for unknown users. If Home is nil, the account's own user has the home Dir, and other users
	// have none.
	Home func(user string) (dir string, ok bool)

	// Resolve returns an absolute path without symbolic links and "..", as realpath(3) does, but
	// the last element need not exist. The server uses it to answer REALPATH and to resolve ".."
	// after a link. If Resolve is nil, the server cleans paths as text and looks up no links.
	Resolve func(path string) (string, error)

	// CreateOnly restricts an account with full access: it may not change or remove files that
	// existed before the connection. See [store.CreateOnly].
	CreateOnly bool

	// Refused lists the requests that the server answers with PERMISSION_DENIED, by the names that
	// [Requests] returns. An unknown name makes the login fail. Refused extensions are not
	// announced.
	Refused []string

	// Hidden makes uploads invisible until they are complete. It applies to a file that the client
	// opens only for writing, and creates or truncates. Such a file is published when the client
	// closes it, and discarded if the connection is lost before. Until then the same user can stat
	// and change it by its name, and can open it again to write to it from several channels and
	// connections. Any other use of the name, such as a rename, publishes the file at once, and so
	// does a copy-data request that copies a whole file to it.
	Hidden bool

	// Life, if set, is a context whose end closes the connection. The cause of that context becomes
	// the error of the connection and of the files that are still open.
	Life context.Context

	// Close, if set, is called when the connection is closed.
	Close func()
}

// check returns an error if the account has no Tree, or if Refused lists an unknown name.
func (a *Account) check() error {
	if a == nil || a.Tree == nil {
		return errors.New("the account has no files")
	}
	_, err := requestsNamed(a.Refused)
	return err
}

// addsOnly reports whether the account may change and remove only files that were created on the
// same connection. Many users often share such an account.
func (a *Account) addsOnly() bool { return a.Access == users.UploadOnly || a.CreateOnly }
