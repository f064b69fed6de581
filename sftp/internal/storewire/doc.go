// Package storewire translates between the values of package store and those of SFTP
// version 3, as package wire has them: attributes, and the errors that a STATUS stands for.
// The server translates one way and the client the other.
package storewire
