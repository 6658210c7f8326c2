package checkpoint

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// networkFolder says "share" when folder is on a network share or a drive letter that stands for one, else "".
func networkFolder(folder string) string {
	volume := filepath.VolumeName(folder)
	if volume == "" {
		return ""
	}
	if strings.HasPrefix(volume, `\\?\UNC\`) || strings.HasPrefix(volume, `\\`) && !strings.HasPrefix(volume, `\\?\`) && !strings.HasPrefix(volume, `\\.\`) {
		return "share"
	}
	root, err := windows.UTF16PtrFromString(volume + `\`)
	if err != nil {
		return ""
	}
	if windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "share"
	}
	return ""
}
