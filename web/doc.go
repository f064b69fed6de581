// Package web serves files over HTTP, by RFC 9110.
//
// A [Handler] serves the files of a [store.Store] and accepts uploads into it. It is an
// [http.Handler]; the [http.Server] it runs in handles listening, TLS and HTTP/2:
//
//	root, err := os.OpenRoot("/srv/files")
//	if err != nil {
//		return err
//	}
//	h := &web.Handler{Store: localdir.New(root), Listing: true}
//	return http.ListenAndServe("127.0.0.1:8080", h)
//
// Files always have a Content-Length and are never sent in chunks, so that firmware which boots
// over HTTP can load them. Range and conditional requests work. Over plain TCP, files go from the
// page cache to the socket without a copy (sendfile), if the store's files are files of the
// operating system and the [http.ResponseWriter] is the server's own. A wrapper around the
// ResponseWriter should pass on its method ReadFrom.
//
// A name that leads out of the store is refused, however it is written. Package
// [github.com/haul-project/haul/web/webclient] is the client.
//
// # Uploads
//
// Uploads are off unless [Handler.Access] allows them. A file sent by PUT appears under its name
// only when all of it is received and safe. An upload that is sent in parts, by PUT with a
// Content-Range, can resume where it was cut off. The page
// https://github.com/haul-project/haul/blob/main/docs/http.md explains how, and lists each rule of
// the RFC, each deviation from it, and each bound.
//
// # Users
//
// With [Handler.Users], requests need a name and a password (RFC 7617). Passwords are accepted over
// TLS only, unless the program sets PlainPasswords. [Handler.Account] then decides which files a
// user may use, and how.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so. The
// answers to clients follow the RFCs, and such a change does not affect them.
package web
