// Package web serves files over HTTP, by RFC 9110. Package webclient is the client.
//
// A [Handler] serves the files of a [store.Store], and takes uploads for it. It
// is an [http.Handler]; listening, TLS and HTTP/2 are the business of the
// [http.Server] that has it:
//
//	root, err := os.OpenRoot("/srv/files")
//	if err != nil {
//		return err
//	}
//	h := &web.Handler{Store: localdir.New(root), Listing: true}
//	return http.ListenAndServe("127.0.0.1:8080", h)
//
// Files have a Content-Length, always, and are never sent in chunks, so that
// firmware which boots from them can do so. They can be asked for in parts, and
// on conditions. Over plain TCP they go from the page cache to the socket without
// a copy (sendfile), where the store has files of the system and the
// [http.ResponseWriter] is the server's own: one that wraps it should have its
// ReadFrom.
//
// A name that leads out of the store is refused, in whatever way it is written.
//
// # Uploads
//
// They are off unless [Handler.Access] says otherwise. A file that is PUT appears
// under its name only when all of it is received and safe. An upload that is sent
// in parts, by PUT with a Content-Range, can resume where it was cut off;
// docs/http.md says how.
//
// # Users
//
// With [Handler.Users] requests need a name and a password (RFC 7617). These are
// taken over TLS only, unless the program insists. [Handler.Account] decides what
// a user gets then.
package web
