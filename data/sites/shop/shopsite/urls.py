"""Addresses of the shop: storefront and back office below the language, Django's admin, uploaded pictures."""

from django.apps import apps
from django.conf import settings
from django.conf.urls.i18n import i18n_patterns
from django.contrib import admin
from django.urls import include, path, re_path
from django.views.static import serve

urlpatterns = [
    path("i18n/", include("django.conf.urls.i18n")),
    path("admin/", admin.site.urls),
    re_path(r"^media/(?P<path>.*)$", serve, {"document_root": settings.MEDIA_ROOT}),
    *i18n_patterns(path("", include(apps.get_app_config("oscar").urls[0]))),
]
