package checkpoint

import (
	"path/filepath"
	"strings"
)

// CloudFolder returns the name of the synchronising client in whose folder path lies ("OneDrive"), "" when none is
// recognised. Such clients copy and lock the files of a live database, so the state folder should not be there. It
// judges by the names of the folders alone: good enough for a warning, not for a refusal.
func CloudFolder(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	for _, part := range strings.FieldsFunc(abs, func(r rune) bool { return r == '/' || r == '\\' }) {
		for _, c := range cloudFolders {
			if rest, ok := strings.CutPrefix(strings.ToLower(part), c.folder); ok && (rest == "" || rest[0] == ' ' || rest[0] == '-') {
				return c.client
			}
		}
	}
	return ""
}

// cloudFolders lists the folder names the clients choose, in lower case; OneDrive and Dropbox add " - Company" to theirs.
var cloudFolders = []struct{ folder, client string }{
	{"onedrive", "OneDrive"},
	{"dropbox", "Dropbox"},
	{"google drive", "Google Drive"},
	{"googledrive", "Google Drive"},
	{"iclouddrive", "iCloud Drive"},
	{"com~apple~clouddocs", "iCloud Drive"},
	{"nextcloud", "Nextcloud"},
	{"owncloud", "ownCloud"},
}
