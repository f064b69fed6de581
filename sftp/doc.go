// Package sftp serves files by SFTP, over golang.org/x/crypto/ssh. Package sftpclient
// is the client.
//
// A [Server] logs users in by the program's own ssh.ServerConfig, and serves each of
// them the tree of an [Account], a store.Tree. It needs no account of the
// operating system and starts no process. It takes version 3 of the protocol and
// OpenSSH's extensions, as all clients do.
package sftp
